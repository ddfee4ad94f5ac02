UPDATE t SET v = ELT(1 + {r:3}, 'a', 'b', 'c') WHERE id = {r:900};
INSERT INTO t (a, v) VALUES ({n}, ELT(1 + {r:3}, 'a', 'b', 'c'));
UPDATE t SET id = id + 100000 + {n} * 2000, a = 1 WHERE id = {r:900};
DELETE FROM t WHERE id = {r:1500};
