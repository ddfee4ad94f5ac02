INSERT INTO t (v) VALUES ({n});
UPDATE t SET v = v + 1 WHERE id = 1 + {r:50};
DELETE FROM t WHERE id = 10 + {r:5000};
