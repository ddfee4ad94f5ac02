CREATE TABLE t (k SMALLINT NOT NULL, v VARCHAR(60), n INT, PRIMARY KEY (k));
INSERT INTO t (k, v, n) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 1200) SELECT (i) * 54 - 32768, CONCAT('row ', i), i FROM s;
REPLACE INTO t (k, v, n) VALUES (-32768, 'least', 0), (32767, 'most', 0), (0, 'zero', 0), (-1, 'minus one', 0);
