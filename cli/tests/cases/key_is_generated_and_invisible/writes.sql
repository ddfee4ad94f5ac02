UPDATE t SET v = CONCAT(LEFT(v, 40), '+') WHERE n = {r:1200};
INSERT INTO t (v, n) VALUES ('new', {n});
DELETE FROM t WHERE n = {r:2000} LIMIT 1;
