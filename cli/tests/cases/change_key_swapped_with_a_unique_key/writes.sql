UPDATE t SET v = CONCAT('w', {n}) WHERE id = {r:900};
INSERT INTO t VALUES (200000 + {n}, 300000 + {n}, 'new');
UPDATE t SET u = -u - {n} * 1000 WHERE id = {r:900} AND u > 0;
DELETE FROM t WHERE id = {r:1500};
BEGIN;
UPDATE t SET u = 0 WHERE id = 5;
UPDATE t SET u = u + 1000000 WHERE id = 6;
COMMIT;
