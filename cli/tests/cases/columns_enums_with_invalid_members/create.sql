SET sql_mode = '';
CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, a ENUM('x','y'), b SET('p','q'), pad VARCHAR(80));
INSERT INTO t (a, b) VALUES ('nosuch','nosuch');
INSERT INTO t (a, b) VALUES ('x','p,q');
INSERT INTO t (a, b) VALUES ('','' );
INSERT INTO t (a, b, pad) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 600) SELECT t.a, t.b, CONCAT('pad ', i) FROM s JOIN t ON t.id = 1 + i % 3;
