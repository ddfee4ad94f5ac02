INSERT INTO t (k, v, n) VALUES (CONCAT('a', {r:2400}, 'Ø'), 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = CONCAT('a', {r:1200}, 'Ø');
DELETE FROM t WHERE k = CONCAT('a', {r:2400}, 'Ø');
UPDATE t SET k = UPPER(k) WHERE k = CONCAT('a', {r:1200}, 'Ø');
UPDATE t SET k = LOWER(k) WHERE k = CONCAT('a', {r:1200}, 'Ø');
