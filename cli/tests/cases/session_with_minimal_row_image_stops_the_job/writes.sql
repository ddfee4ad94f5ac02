UPDATE t SET a = {n} WHERE id = {r:900};
