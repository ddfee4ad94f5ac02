UPDATE t SET v = {r:9999} / 7 WHERE id = {r:900};
INSERT INTO t (a, v) VALUES ({n}, {r:9999} / 7);
UPDATE t SET id = id + 100000 + {n} * 2000, a = 1 WHERE id = {r:900};
DELETE FROM t WHERE id = {r:1500};
