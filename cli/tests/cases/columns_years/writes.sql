UPDATE t JOIN t AS o ON o.id = 1 + {n:4} SET t.a = o.a, t.b = o.b, t.pad = 'w{n}' WHERE t.id = 4 + 1 + {r:600};
INSERT INTO t (a, b, pad) SELECT a, b, 'new {n}' FROM t WHERE id = 1 + {r:4};
UPDATE t SET id = 100000 + {n} WHERE id = 4 + 1 + {r:600};
DELETE FROM t WHERE id = 4 + 1 + {r:600};
