UPDATE t SET a = {r:10000}, b = CONCAT('w', {n}) WHERE id = {r:900};
UPDATE t SET c = CONCAT('ß', {n}) WHERE id = {r:900};
INSERT INTO t (a, b, c) VALUES ({n}, 'new', 'é new');
DELETE FROM t WHERE id = {r:1500};
UPDATE t SET id = id + 100000 + {n} * 2000 WHERE id = {r:900};
