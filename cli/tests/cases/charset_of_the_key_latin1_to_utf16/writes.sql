UPDATE t SET a = {n} WHERE k = CONCAT('éÅ', {r:700});
INSERT INTO t (a, k) VALUES ({n}, CONCAT('é', {n}));
UPDATE t SET k = CONCAT('Å', {n}, 'é') WHERE k = CONCAT('éÅ', {r:700});
DELETE FROM t WHERE k = CONCAT('éÅ', {r:1500});
