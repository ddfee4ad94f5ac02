CREATE TABLE t (k MEDIUMINT NOT NULL, v VARCHAR(60), n INT, PRIMARY KEY (k));
INSERT INTO t (k, v, n) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 1200) SELECT (i) * 13980 - 8388608, CONCAT('row ', i), i FROM s;
REPLACE INTO t (k, v, n) VALUES (-8388608, 'least', 0), (8388607, 'most', 0), (0, 'zero', 0), (-1, 'minus one', 0);
