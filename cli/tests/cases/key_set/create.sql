CREATE TABLE t (k SET('a','b','c','d','e','f','g','h','i','j') NOT NULL, v VARCHAR(60), n INT, PRIMARY KEY (k));
INSERT INTO t (k, v, n) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 700) SELECT (i) % 1024, CONCAT('row ', i), i FROM s;
