SET SESSION time_zone = '+00:00';
UPDATE t JOIN t AS o ON o.id = 1 + {n:3} SET t.a = o.a, t.b = o.b, t.c = o.c, t.d = o.d, t.e = o.e, t.pad = 'w{n}' WHERE t.id = 3 + 1 + {r:600};
INSERT INTO t (a, b, c, d, e, pad) SELECT a, b, c, d, e, 'new {n}' FROM t WHERE id = 1 + {r:3};
UPDATE t SET id = 100000 + {n} WHERE id = 3 + 1 + {r:600};
DELETE FROM t WHERE id = 3 + 1 + {r:600};
UPDATE t SET pad = 'touched' WHERE id = 4 + {r:600};
SET SESSION time_zone = '+09:00';
UPDATE t SET a = CURRENT_TIMESTAMP(6) WHERE id = 4 + {r:600};
