INSERT INTO t (k, v, n) VALUES (1 + ({r:300}) % 300, 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = 1 + ({r:200}) % 300;
DELETE FROM t WHERE k = 1 + ({r:300}) % 300;
