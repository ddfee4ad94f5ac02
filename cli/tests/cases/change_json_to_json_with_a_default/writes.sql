UPDATE t SET v = JSON_ARRAY({n}, 'ß', 1.25) WHERE id = {r:900};
INSERT INTO t (a, v) VALUES ({n}, JSON_ARRAY({n}, 'ß', 1.25));
UPDATE t SET id = id + 100000 + {n} * 2000, a = 1 WHERE id = {r:900};
DELETE FROM t WHERE id = {r:1500};
