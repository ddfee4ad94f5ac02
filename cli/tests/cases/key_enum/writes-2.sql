UPDATE t SET k = 1 + ({r:300}) % 300 WHERE k = 1 + ({r:300}) % 300;
BEGIN;
UPDATE t SET n = n + 1 WHERE k = 1 + ({r:200}) % 300;
UPDATE t SET v = 'both' WHERE k = 1 + ({r:200}) % 300;
COMMIT;
