SET sql_generate_invisible_primary_key = ON;
CREATE TABLE t (v VARCHAR(60), n INT, KEY (n));
INSERT INTO t (v, n) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 1200) SELECT CONCAT('row ', i), i FROM s;
