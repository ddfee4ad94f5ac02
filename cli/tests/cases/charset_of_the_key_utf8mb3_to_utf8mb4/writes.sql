UPDATE t SET a = {n} WHERE k = CONCAT('é中', {r:700});
INSERT INTO t (a, k) VALUES ({n}, CONCAT('é', {n}));
UPDATE t SET k = CONCAT('中', {n}, 'é') WHERE k = CONCAT('é中', {r:700});
DELETE FROM t WHERE k = CONCAT('é中', {r:1500});
