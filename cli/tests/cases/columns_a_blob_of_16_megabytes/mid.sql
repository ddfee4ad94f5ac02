UPDATE t SET v = v + 1 WHERE id = 1; UPDATE t SET b = CONCAT(b, 'z') WHERE id = 2; INSERT INTO t SELECT 500, b, 5 FROM t WHERE id = 2;
