CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, a CHAR(20), b VARCHAR(40), c TEXT, d CHAR(10) CHARACTER SET latin1, e VARCHAR(20) COLLATE utf8mb4_bin, pad VARCHAR(80));
INSERT INTO t (a, b, c, d, e) VALUES ('x  ','x  ','x  ','é  ','x  ');
INSERT INTO t (a, b, c, d, e) VALUES ('','','','','');
INSERT INTO t (a, b, c, d, e) VALUES ('NULL','NULL','NULL','NULL','NULL');
INSERT INTO t (a, b, c, d, e) VALUES (NULL,NULL,NULL,NULL,NULL);
INSERT INTO t (a, b, c, d, e) VALUES ('\\ \' \" \n \r \t \0 \Z %','\\ \' \" \n \r \t \0 \Z %','\\ \' \" \n \r \t \0 \Z %','\\ \' \" \n',' \\ \0');
INSERT INTO t (a, b, c, d, e) VALUES ('😀👩‍👩‍👧','😀é̂','𝒳','éÿ','😀');
INSERT INTO t (a, b, c, d, e, pad) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 600) SELECT t.a, t.b, t.c, t.d, t.e, CONCAT('pad ', i) FROM s JOIN t ON t.id = 1 + i % 6;
