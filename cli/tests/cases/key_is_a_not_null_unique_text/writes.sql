UPDATE t SET v = CONCAT(LEFT(v, 40), '+') WHERE k = CONCAT('é', {r:1200});
INSERT INTO t (k, v) VALUES (CONCAT('new', {n}), 'new');
UPDATE t SET k = CONCAT('E', {n}, 'moved') WHERE k = CONCAT('e', {r:1200});
DELETE FROM t WHERE k = CONCAT('é', {r:2000});
