UPDATE t SET v = SEC_TO_TIME({r:9999} / 10 - 500) WHERE id = {r:900};
INSERT INTO t (a, v) VALUES ({n}, SEC_TO_TIME({r:9999} / 10 - 500));
UPDATE t SET id = id + 100000 + {n} * 2000, a = 1 WHERE id = {r:900};
DELETE FROM t WHERE id = {r:1500};
