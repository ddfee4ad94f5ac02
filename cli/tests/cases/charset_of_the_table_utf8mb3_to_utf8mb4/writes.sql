UPDATE t SET b = CONCAT('中', {n}), c = 'é中' WHERE id = {r:700};
UPDATE t SET e = 'w', s = 'z,y', f = 'é ' WHERE id = {r:700};
INSERT INTO t (a, b, c) VALUES ({n}, 'é中', 'é中');
DELETE FROM t WHERE id = {r:1500};
