UPDATE t JOIN t AS o ON o.id = 1 + {n:3} SET t.g = o.g, t.p = o.p, t.l = o.l, t.m = o.m, t.c = o.c, t.q = o.q, t.pad = 'w{n}' WHERE t.id = 3 + 1 + {r:600};
INSERT INTO t (g, p, l, m, c, q, pad) SELECT g, p, l, m, c, q, 'new {n}' FROM t WHERE id = 1 + {r:3};
UPDATE t SET id = 100000 + {n} WHERE id = 3 + 1 + {r:600};
DELETE FROM t WHERE id = 3 + 1 + {r:600};
UPDATE t SET q = ST_GeomFromText(CONCAT('POINT(', {r}, ' ', {n}, '.5)')) WHERE id = 4 + {r:600};
