UPDATE t SET k = 1 + ({r:1800}) % 4 WHERE k = 1 + ({r:1800}) % 4;
BEGIN;
UPDATE t SET n = n + 1 WHERE k = 1 + ({r:900}) % 4;
UPDATE t SET v = 'both' WHERE k = 1 + ({r:900}) % 4;
COMMIT;
