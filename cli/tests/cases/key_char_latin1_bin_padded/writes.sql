INSERT INTO t (k, v, n) VALUES (CONCAT('É', {r:2400}, REPEAT(' ', ({r:2400}) % 2)), 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = CONCAT('É', {r:1200}, REPEAT(' ', ({r:1200}) % 2));
DELETE FROM t WHERE k = CONCAT('É', {r:2400}, REPEAT(' ', ({r:2400}) % 2));
UPDATE t SET k = UPPER(k) WHERE k = CONCAT('É', {r:1200}, REPEAT(' ', ({r:1200}) % 2));
UPDATE t SET k = LOWER(k) WHERE k = CONCAT('É', {r:1200}, REPEAT(' ', ({r:1200}) % 2));
