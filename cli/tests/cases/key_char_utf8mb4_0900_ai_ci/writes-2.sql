UPDATE t SET k = CONCAT('a', {r:2400}, 'Ø') WHERE k = CONCAT('a', {r:2400}, 'Ø');
BEGIN;
UPDATE t SET n = n + 1 WHERE k = CONCAT('a', {r:1200}, 'Ø');
UPDATE t SET v = 'both' WHERE k = CONCAT('a', {r:1200}, 'Ø');
COMMIT;
