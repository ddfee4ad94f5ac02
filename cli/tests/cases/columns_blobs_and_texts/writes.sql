UPDATE t JOIN t AS o ON o.id = 1 + {n:4} SET t.a = o.a, t.b = o.b, t.c = o.c, t.d = o.d, t.e = o.e, t.f = o.f, t.g = o.g, t.h = o.h, t.pad = 'w{n}' WHERE t.id = 4 + 1 + {r:300};
INSERT INTO t (a, b, c, d, e, f, g, h, pad) SELECT a, b, c, d, e, f, g, h, 'new {n}' FROM t WHERE id = 1 + {r:4};
UPDATE t SET id = 100000 + {n} WHERE id = 4 + 1 + {r:300};
DELETE FROM t WHERE id = 4 + 1 + {r:300};
UPDATE t SET f = CONCAT(LEFT(f, 1000), '+'), h = CONCAT(LEFT(h, 1000), 'É') WHERE id = 5 + {r:300};
