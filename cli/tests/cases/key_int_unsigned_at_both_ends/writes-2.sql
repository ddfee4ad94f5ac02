UPDATE t SET k = ({r:1200}) * 3579139 WHERE k = ({r:1200}) * 3579139;
BEGIN;
UPDATE t SET n = n + 1 WHERE k = ({r:1200}) * 3579139;
UPDATE t SET v = 'both' WHERE k = ({r:1200}) * 3579139;
COMMIT;
