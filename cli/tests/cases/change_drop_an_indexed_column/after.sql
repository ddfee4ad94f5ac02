UPDATE t SET b = 'after' WHERE id = {r:900};
DELETE FROM t WHERE id = {r:1500};
UPDATE t SET c = {n} WHERE id > {r:900} LIMIT 1;
