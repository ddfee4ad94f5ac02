UPDATE t SET a = a + 1 WHERE id = {r:900};
DELETE FROM t WHERE id = {r:1500};
UPDATE t SET a = 3 WHERE id > {r:900} LIMIT 1;
