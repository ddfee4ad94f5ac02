SET sql_mode = '';
CREATE TABLE t (k DATE NOT NULL, v VARCHAR(60), n INT, PRIMARY KEY (k));
INSERT INTO t (k, v, n) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 1200) SELECT DATE_ADD('2000-01-01', INTERVAL (i) DAY), CONCAT('row ', i), i FROM s;
INSERT INTO t (k, v, n) VALUES ('0000-00-00', 'zero', 0), ('2000-00-00', 'partial', 0), ('2000-01-00', 'partial', 0);
