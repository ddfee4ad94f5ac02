CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(60), c TEXT, e ENUM('w','x'), s SET('z','y'), f CHAR(20), KEY (b)) DEFAULT CHARSET utf8mb4;
INSERT INTO t (a, b, c, e, s, f) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 700) SELECT i, CONCAT('éÅß', i), CONCAT('éÅßéÅß', i), 1 + i % 2, i % 4, 'éÅß' FROM s;
