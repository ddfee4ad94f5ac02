UPDATE t SET a = {r:10000} WHERE id = {r:900};
INSERT INTO t (a) VALUES ({n});
DELETE FROM t WHERE id = {r:1500};
