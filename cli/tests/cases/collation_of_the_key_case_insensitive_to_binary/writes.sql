UPDATE t SET a = {n} WHERE k = CONCAT('é', {r:700});
UPDATE t SET k = UPPER(k) WHERE k = CONCAT('é', {r:700});
INSERT INTO t (a, k) VALUES ({n}, CONCAT('x', {n}));
DELETE FROM t WHERE k = CONCAT('é', {r:1500});
