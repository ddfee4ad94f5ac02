UPDATE t SET b = b + 1 WHERE id = {r:900};
DELETE FROM t WHERE id = {r:1500};
UPDATE t SET b = 3 WHERE id > {r:900} LIMIT 1;
