UPDATE t SET k = ({r:256}) % 256 - 128 WHERE k = ({r:256}) % 256 - 128;
BEGIN;
UPDATE t SET n = n + 1 WHERE k = ({r:256}) % 256 - 128;
UPDATE t SET v = 'both' WHERE k = ({r:256}) % 256 - 128;
COMMIT;
