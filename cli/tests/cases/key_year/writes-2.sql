UPDATE t SET k = 1901 + ({r:255}) % 255 WHERE k = 1901 + ({r:255}) % 255;
BEGIN;
UPDATE t SET n = n + 1 WHERE k = 1901 + ({r:254}) % 255;
UPDATE t SET v = 'both' WHERE k = 1901 + ({r:254}) % 255;
COMMIT;
