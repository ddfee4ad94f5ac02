UPDATE t SET k = ({r:1213}) * 54 WHERE k = ({r:1213}) * 54;
BEGIN;
UPDATE t SET n = n + 1 WHERE k = ({r:1200}) * 54;
UPDATE t SET v = 'both' WHERE k = ({r:1200}) * 54;
COMMIT;
