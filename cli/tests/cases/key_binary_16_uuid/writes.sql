INSERT INTO t (k, v, n) VALUES (UNHEX(LEFT(SHA2(CONCAT('key', {r:2400}), 256), 32)), 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = UNHEX(LEFT(SHA2(CONCAT('key', {r:1200}), 256), 32));
DELETE FROM t WHERE k = UNHEX(LEFT(SHA2(CONCAT('key', {r:2400}), 256), 32));
