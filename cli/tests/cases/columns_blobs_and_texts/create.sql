CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, a TINYBLOB, b BLOB, c MEDIUMBLOB, d LONGBLOB, e TINYTEXT, f TEXT, g MEDIUMTEXT, h LONGTEXT CHARACTER SET latin1, pad VARCHAR(80));
INSERT INTO t (a, b, c, d, e, f, g, h) VALUES (REPEAT(X'00',255),REPEAT(X'FF',3000),X'00',X'',REPEAT('x',255),REPEAT('é',2000),'é😀',REPEAT('é',3000));
INSERT INTO t (a, b, c, d, e, f, g, h) VALUES ('','','','','','','','');
INSERT INTO t (a, b, c, d, e, f, g, h) VALUES (NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO t (a, b, c, d, e, f, g, h) VALUES (X'0001',X'00',REPEAT(X'5C27',2000),REPEAT(X'00',9000),'é','a','b','c');
INSERT INTO t (a, b, c, d, e, f, g, h, pad) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 300) SELECT t.a, t.b, t.c, t.d, t.e, t.f, t.g, t.h, CONCAT('pad ', i) FROM s JOIN t ON t.id = 1 + i % 4;
