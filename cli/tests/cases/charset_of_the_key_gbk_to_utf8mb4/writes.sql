UPDATE t SET a = {n} WHERE k = CONCAT('中文', {r:700});
INSERT INTO t (a, k) VALUES ({n}, CONCAT('中', {n}));
UPDATE t SET k = CONCAT('文', {n}, '中') WHERE k = CONCAT('中文', {r:700});
DELETE FROM t WHERE k = CONCAT('中文', {r:1500});
