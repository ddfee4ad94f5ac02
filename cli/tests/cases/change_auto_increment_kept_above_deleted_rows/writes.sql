UPDATE t SET a = {r:10000} WHERE id = {r:900};
DELETE FROM t WHERE id = {r:1500};
UPDATE t SET b = 'w{n}' WHERE id = {r:900};
