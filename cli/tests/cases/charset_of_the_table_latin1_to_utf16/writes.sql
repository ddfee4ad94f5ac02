UPDATE t SET b = CONCAT('Å', {n}), c = 'éÅ' WHERE id = {r:700};
UPDATE t SET e = 'w', s = 'z,y', f = 'é ' WHERE id = {r:700};
INSERT INTO t (a, b, c) VALUES ({n}, 'éÅ', 'éÅ');
DELETE FROM t WHERE id = {r:1500};
