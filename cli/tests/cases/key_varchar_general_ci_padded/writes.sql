INSERT INTO t (k, v, n) VALUES (CONCAT('é', {r:2400}, REPEAT(' ', ({r:2400}) % 3)), 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = CONCAT('é', {r:1200}, REPEAT(' ', ({r:1200}) % 3));
DELETE FROM t WHERE k = CONCAT('é', {r:2400}, REPEAT(' ', ({r:2400}) % 3));
UPDATE t SET k = UPPER(k) WHERE k = CONCAT('é', {r:1200}, REPEAT(' ', ({r:1200}) % 3));
UPDATE t SET k = LOWER(k) WHERE k = CONCAT('é', {r:1200}, REPEAT(' ', ({r:1200}) % 3));
