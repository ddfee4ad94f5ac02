INSERT INTO t (k, v, n) VALUES (1901 + ({r:255}) % 255, 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = 1901 + ({r:254}) % 255;
DELETE FROM t WHERE k = 1901 + ({r:255}) % 255;
