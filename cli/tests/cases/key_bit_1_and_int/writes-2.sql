UPDATE t SET k = ({r:2400}) % 2 WHERE k = ({r:2400}) % 2;
BEGIN;
UPDATE t SET n = n + 1 WHERE k = ({r:1200}) % 2;
UPDATE t SET v = 'both' WHERE k = ({r:1200}) % 2;
COMMIT;
