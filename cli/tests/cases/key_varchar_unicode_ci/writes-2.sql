UPDATE t SET k = CONCAT('Straße', {r:2400}) WHERE k = CONCAT('Straße', {r:2400});
BEGIN;
UPDATE t SET n = n + 1 WHERE k = CONCAT('Straße', {r:1200});
UPDATE t SET v = 'both' WHERE k = CONCAT('Straße', {r:1200});
COMMIT;
