INSERT INTO t (k, v, n) VALUES (CAST(({r:2400}) AS DECIMAL(20,6)) / 7 - 90.5, 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = CAST(({r:1200}) AS DECIMAL(20,6)) / 7 - 90.5;
DELETE FROM t WHERE k = CAST(({r:2400}) AS DECIMAL(20,6)) / 7 - 90.5;
