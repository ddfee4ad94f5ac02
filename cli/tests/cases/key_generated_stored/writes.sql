INSERT INTO t (a, b, v) VALUES (1000 + {n}, 3, 'new');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+') WHERE a = {r:170} AND b = {r:7};
UPDATE t SET b = 100 + {n} WHERE a = {r:170} AND b = {r:7};
DELETE FROM t WHERE a = {r:300} AND b = 3;
