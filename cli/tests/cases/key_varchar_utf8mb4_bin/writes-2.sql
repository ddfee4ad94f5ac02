UPDATE t SET k = CONCAT(CHAR(65 + ({r:2400}) % 2 * 32 USING utf8mb4), 'é😀', ({r:2400}) DIV 2) WHERE k = CONCAT(CHAR(65 + ({r:2400}) % 2 * 32 USING utf8mb4), 'é😀', ({r:2400}) DIV 2);
BEGIN;
UPDATE t SET n = n + 1 WHERE k = CONCAT(CHAR(65 + ({r:1200}) % 2 * 32 USING utf8mb4), 'é😀', ({r:1200}) DIV 2);
UPDATE t SET v = 'both' WHERE k = CONCAT(CHAR(65 + ({r:1200}) % 2 * 32 USING utf8mb4), 'é😀', ({r:1200}) DIV 2);
COMMIT;
