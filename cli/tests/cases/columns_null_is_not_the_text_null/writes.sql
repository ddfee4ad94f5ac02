UPDATE t SET a = b, b = NULL WHERE id = {r:900};
UPDATE t SET a = 'NULL', b = '' WHERE id = {r:900};
UPDATE t SET a = NULL, b = 'NULL', c = NULL WHERE id = {r:900};
DELETE FROM t WHERE id = {r:3000};
