UPDATE t SET k = CONCAT('é', {r:2400}, REPEAT(' ', ({r:2400}) % 3)) WHERE k = CONCAT('é', {r:2400}, REPEAT(' ', ({r:2400}) % 3));
BEGIN;
UPDATE t SET n = n + 1 WHERE k = CONCAT('é', {r:1200}, REPEAT(' ', ({r:1200}) % 3));
UPDATE t SET v = 'both' WHERE k = CONCAT('é', {r:1200}, REPEAT(' ', ({r:1200}) % 3));
COMMIT;
