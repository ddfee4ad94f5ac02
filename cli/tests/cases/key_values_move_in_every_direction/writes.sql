UPDATE t SET id = id + 5001 WHERE id = {r:2500} * 4;
UPDATE t SET id = id - 5001 WHERE id = {r:2500} * 4 + 5001;
UPDATE t SET id = -id WHERE id = {r:2500} * 4;
UPDATE t SET id = -id WHERE id = -{r:2500} * 4;
BEGIN;
UPDATE t SET id = 1000001 WHERE id = 4;
UPDATE t SET id = 4 WHERE id = 10000;
UPDATE t SET id = 10000 WHERE id = 1000001;
COMMIT;
