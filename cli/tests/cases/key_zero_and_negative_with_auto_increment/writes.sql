UPDATE t SET v = CONCAT(LEFT(v, 40), '+') WHERE id = 0;
UPDATE t SET v = CONCAT(LEFT(v, 40), '-') WHERE id = {r:800} - 400;
DELETE FROM t WHERE id = {r:300} - 400;
INSERT INTO t (v) VALUES ('new {n}');
SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
UPDATE t SET id = -1000 - {n} WHERE id = {r:100} + 1;
