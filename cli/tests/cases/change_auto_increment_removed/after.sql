UPDATE t SET a = a + 1 WHERE id = {r:900};
UPDATE t SET b = {n} WHERE id > {r:900} LIMIT 1;
DELETE FROM t WHERE id = {r:1500};
