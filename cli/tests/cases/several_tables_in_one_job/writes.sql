BEGIN;
UPDATE t SET v = v + 1 WHERE id = {r:600};
UPDATE u SET v = v + 1 WHERE id = {r:600};
COMMIT;
INSERT INTO t (v) VALUES ({n});
INSERT INTO u (v) VALUES ({n});
DELETE FROM u WHERE id = {r:1500};
