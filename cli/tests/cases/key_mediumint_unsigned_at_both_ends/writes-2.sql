UPDATE t SET k = ({r:1200}) * 13980 WHERE k = ({r:1200}) * 13980;
BEGIN;
UPDATE t SET n = n + 1 WHERE k = ({r:1200}) * 13980;
UPDATE t SET v = 'both' WHERE k = ({r:1200}) * 13980;
COMMIT;
