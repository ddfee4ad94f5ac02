UPDATE t SET a = {n} WHERE id = {r:900};
DELETE FROM t WHERE id = {r:1500};
