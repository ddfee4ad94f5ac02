UPDATE t SET v = CONCAT('w', {n}) WHERE id = {r:900};
