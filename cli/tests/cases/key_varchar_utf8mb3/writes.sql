INSERT INTO t (k, v, n) VALUES (CONCAT('é中', {r:2400}, 'a'), 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = CONCAT('é中', {r:1200}, 'a');
DELETE FROM t WHERE k = CONCAT('é中', {r:2400}, 'a');
UPDATE t SET k = UPPER(k) WHERE k = CONCAT('é中', {r:1200}, 'a');
UPDATE t SET k = LOWER(k) WHERE k = CONCAT('é中', {r:1200}, 'a');
