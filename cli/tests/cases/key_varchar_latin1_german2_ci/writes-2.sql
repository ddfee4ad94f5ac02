UPDATE t SET k = CONCAT('Mä', {r:2400}, 'ß') WHERE k = CONCAT('Mä', {r:2400}, 'ß');
BEGIN;
UPDATE t SET n = n + 1 WHERE k = CONCAT('Mä', {r:1200}, 'ß');
UPDATE t SET v = 'both' WHERE k = CONCAT('Mä', {r:1200}, 'ß');
COMMIT;
