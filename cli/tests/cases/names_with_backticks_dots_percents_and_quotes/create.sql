CREATE TABLE `a``b.c%d` (`k``y` INT NOT NULL PRIMARY KEY, `v.%s'"` VARCHAR(60), `rename` INT, KEY `i``x%` (`v.%s'"`));
INSERT INTO `a``b.c%d` WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 900) SELECT i, CONCAT('row ', i), 1 FROM s;
