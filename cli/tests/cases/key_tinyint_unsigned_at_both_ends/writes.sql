INSERT INTO t (k, v, n) VALUES (({r:256}) % 256, 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = ({r:256}) % 256;
DELETE FROM t WHERE k = ({r:256}) % 256;
