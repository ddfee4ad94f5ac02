UPDATE t SET a = {r:10000} WHERE id = {r:900};
UPDATE t SET b = CONCAT('ß', {n}) WHERE id = {r:900};
INSERT INTO t (a, b) VALUES ({n}, 'new');
DELETE FROM t WHERE id = {r:1500};
UPDATE t SET id = id + 10000 * (1 + {n}) WHERE id = {r:900};
