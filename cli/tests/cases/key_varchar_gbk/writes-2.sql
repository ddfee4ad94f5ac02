UPDATE t SET k = CONCAT('中文', {r:2400}, 'a') WHERE k = CONCAT('中文', {r:2400}, 'a');
BEGIN;
UPDATE t SET n = n + 1 WHERE k = CONCAT('中文', {r:1200}, 'a');
UPDATE t SET v = 'both' WHERE k = CONCAT('中文', {r:1200}, 'a');
COMMIT;
