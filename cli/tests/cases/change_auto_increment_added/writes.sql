UPDATE t SET v = CONCAT('w', {n}) WHERE id = {r:900};
INSERT INTO t VALUES (200000 + {n}, {n}, 'new');
UPDATE t SET a = a + 1 WHERE id = 0;
DELETE FROM t WHERE id = 1 + {r:1500};
