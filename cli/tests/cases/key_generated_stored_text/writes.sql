INSERT INTO t (a, v) VALUES (10000 + {n}, 'new');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+') WHERE a = {r:1200};
UPDATE t SET a = 100000 + {n} WHERE a = {r:1200};
DELETE FROM t WHERE a = {r:3000};
