UPDATE t SET k = CONCAT('É', {r:2400}, REPEAT(' ', ({r:2400}) % 2)) WHERE k = CONCAT('É', {r:2400}, REPEAT(' ', ({r:2400}) % 2));
BEGIN;
UPDATE t SET n = n + 1 WHERE k = CONCAT('É', {r:1200}, REPEAT(' ', ({r:1200}) % 2));
UPDATE t SET v = 'both' WHERE k = CONCAT('É', {r:1200}, REPEAT(' ', ({r:1200}) % 2));
COMMIT;
