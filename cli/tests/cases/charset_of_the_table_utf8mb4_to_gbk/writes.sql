UPDATE t SET b = CONCAT('文', {n}), c = '中文' WHERE id = {r:700};
UPDATE t SET e = 'w', s = 'z,y', f = '中 ' WHERE id = {r:700};
INSERT INTO t (a, b, c) VALUES ({n}, '中文', '中文');
DELETE FROM t WHERE id = {r:1500};
