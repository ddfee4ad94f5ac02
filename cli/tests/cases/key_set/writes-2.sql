UPDATE t SET k = ({r:1024}) % 1024 WHERE k = ({r:1024}) % 1024;
BEGIN;
UPDATE t SET n = n + 1 WHERE k = ({r:700}) % 1024;
UPDATE t SET v = 'both' WHERE k = ({r:700}) % 1024;
COMMIT;
