UPDATE t SET k = ({r:1213}) * 54 - 32768 WHERE k = ({r:1213}) * 54 - 32768;
BEGIN;
UPDATE t SET n = n + 1 WHERE k = ({r:1200}) * 54 - 32768;
UPDATE t SET v = 'both' WHERE k = ({r:1200}) * 54 - 32768;
COMMIT;
