UPDATE t SET v = {r:10000} WHERE id = {r:900};
INSERT INTO t (v) VALUES ({n});
DELETE FROM t WHERE id = {r:1500};
