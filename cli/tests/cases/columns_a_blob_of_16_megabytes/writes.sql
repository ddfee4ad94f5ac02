UPDATE t SET v = v + 1 WHERE id = 3 + {r:190};
INSERT INTO t VALUES (1000 + {n}, 'small', 1);
