UPDATE t SET u = {n} WHERE id = {r:900};
