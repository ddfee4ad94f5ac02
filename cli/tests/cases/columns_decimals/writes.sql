UPDATE t JOIN t AS o ON o.id = 1 + {n:5} SET t.a = o.a, t.b = o.b, t.c = o.c, t.d = o.d, t.e = o.e, t.f = o.f, t.g = o.g, t.pad = 'w{n}' WHERE t.id = 5 + 1 + {r:600};
INSERT INTO t (a, b, c, d, e, f, g, pad) SELECT a, b, c, d, e, f, g, 'new {n}' FROM t WHERE id = 1 + {r:5};
UPDATE t SET id = 100000 + {n} WHERE id = 5 + 1 + {r:600};
DELETE FROM t WHERE id = 5 + 1 + {r:600};
UPDATE t SET a = a / 3, c = c + 0.01 WHERE id = 6 + {r:600} AND ABS(c) < 1000;
