UPDATE t JOIN t AS o ON o.id = 1 + {n:6} SET t.a = o.a, t.b = o.b, t.c = o.c, t.d = o.d, t.e = o.e, t.pad = 'w{n}' WHERE t.id = 6 + 1 + {r:600};
INSERT INTO t (a, b, c, d, e, pad) SELECT a, b, c, d, e, 'new {n}' FROM t WHERE id = 1 + {r:6};
UPDATE t SET id = 100000 + {n} WHERE id = 6 + 1 + {r:600};
DELETE FROM t WHERE id = 6 + 1 + {r:600};
UPDATE t SET b = CONCAT(LEFT(b, 30), ' ') WHERE id = 7 + {r:600};
UPDATE t SET b = UPPER(b), a = UPPER(a) WHERE id = 7 + {r:600};
