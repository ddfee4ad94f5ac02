INSERT INTO t (k, v, n) VALUES (CONCAT('Straße', {r:2400}), 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = CONCAT('Straße', {r:1200});
DELETE FROM t WHERE k = CONCAT('Straße', {r:2400});
UPDATE t SET k = UPPER(k) WHERE k = CONCAT('Straße', {r:1200});
UPDATE t SET k = LOWER(k) WHERE k = CONCAT('Straße', {r:1200});
