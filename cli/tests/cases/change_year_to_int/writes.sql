UPDATE t SET v = 1901 + {r:250} WHERE id = {r:900};
INSERT INTO t (a, v) VALUES ({n}, 1901 + {r:250});
UPDATE t SET id = id + 100000 + {n} * 2000, a = 1 WHERE id = {r:900};
DELETE FROM t WHERE id = {r:1500};
