INSERT INTO t (k, v, n) VALUES (({r:1200}) * 13980 - 8388608, 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = ({r:1200}) * 13980 - 8388608;
DELETE FROM t WHERE k = ({r:1200}) * 13980 - 8388608;
