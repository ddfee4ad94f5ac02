CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, a SET('s0','s1','s2','s3','s4','s5','s6','s7','s8','s9','s10','s11','s12','s13','s14','s15','s16','s17','s18','s19','s20','s21','s22','s23','s24','s25','s26','s27','s28','s29','s30','s31','s32','s33','s34','s35','s36','s37','s38','s39','s40','s41','s42','s43','s44','s45','s46','s47','s48','s49','s50','s51','s52','s53','s54','s55','s56','s57','s58','s59','s60','s61','s62','s63'), b SET('x','É','z') CHARACTER SET latin1, c SET('a','b','c','d','e','f','g','h','i'), pad VARCHAR(80));
INSERT INTO t (a, b, c) VALUES (18446744073709551615,7,511);
INSERT INTO t (a, b, c) VALUES (0,0,0);
INSERT INTO t (a, b, c) VALUES (9223372036854775808,4,256);
INSERT INTO t (a, b, c) VALUES (1,1,1);
INSERT INTO t (a, b, c) VALUES (NULL,NULL,NULL);
INSERT INTO t (a, b, c, pad) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 600) SELECT t.a, t.b, t.c, CONCAT('pad ', i) FROM s JOIN t ON t.id = 1 + i % 5;
