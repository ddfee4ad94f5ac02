UPDATE t SET a = {n} WHERE k = CONCAT('éÅß', {r:700});
INSERT INTO t (a, k) VALUES ({n}, CONCAT('é', {n}));
UPDATE t SET k = CONCAT('Å', {n}, 'é') WHERE k = CONCAT('éÅß', {r:700});
DELETE FROM t WHERE k = CONCAT('éÅß', {r:1500});
