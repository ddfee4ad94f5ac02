CREATE TABLE t (`select` INT NOT NULL, `order` INT NOT NULL, v VARCHAR(60), PRIMARY KEY (`order`, `select`));
INSERT INTO t (`select`, `order`, v) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 1200) SELECT (i) % 11, (i) DIV 11, CONCAT('row ', i) FROM s;
