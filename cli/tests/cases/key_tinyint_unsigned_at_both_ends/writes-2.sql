UPDATE t SET k = ({r:256}) % 256 WHERE k = ({r:256}) % 256;
BEGIN;
UPDATE t SET n = n + 1 WHERE k = ({r:256}) % 256;
UPDATE t SET v = 'both' WHERE k = ({r:256}) % 256;
COMMIT;
