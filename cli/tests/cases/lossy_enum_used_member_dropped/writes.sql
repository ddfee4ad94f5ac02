UPDATE t SET c = CONCAT('w', {n}) WHERE id = {r:600};
