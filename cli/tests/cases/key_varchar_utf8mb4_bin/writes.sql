INSERT INTO t (k, v, n) VALUES (CONCAT(CHAR(65 + ({r:2400}) % 2 * 32 USING utf8mb4), 'é😀', ({r:2400}) DIV 2), 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = CONCAT(CHAR(65 + ({r:1200}) % 2 * 32 USING utf8mb4), 'é😀', ({r:1200}) DIV 2);
DELETE FROM t WHERE k = CONCAT(CHAR(65 + ({r:2400}) % 2 * 32 USING utf8mb4), 'é😀', ({r:2400}) DIV 2);
