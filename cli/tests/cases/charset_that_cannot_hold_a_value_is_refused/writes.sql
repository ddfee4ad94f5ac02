UPDATE t SET a = a + 1 WHERE id = {r:600};
