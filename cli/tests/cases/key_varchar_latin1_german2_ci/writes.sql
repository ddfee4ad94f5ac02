INSERT INTO t (k, v, n) VALUES (CONCAT('Mä', {r:2400}, 'ß'), 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = CONCAT('Mä', {r:1200}, 'ß');
DELETE FROM t WHERE k = CONCAT('Mä', {r:2400}, 'ß');
UPDATE t SET k = UPPER(k) WHERE k = CONCAT('Mä', {r:1200}, 'ß');
UPDATE t SET k = LOWER(k) WHERE k = CONCAT('Mä', {r:1200}, 'ß');
