UPDATE t JOIN t AS o ON o.id = 1 + {n:8} SET t.j = o.j, t.k = o.k, t.pad = 'w{n}' WHERE t.id = 8 + 1 + {r:500};
INSERT INTO t (j, k, pad) SELECT j, k, 'new {n}' FROM t WHERE id = 1 + {r:8};
UPDATE t SET id = 100000 + {n} WHERE id = 8 + 1 + {r:500};
DELETE FROM t WHERE id = 8 + 1 + {r:500};
UPDATE t SET j = JSON_SET(j, '$.x', {n}), k = JSON_ARRAY_APPEND(k, '$', CAST({n} / 7 AS DECIMAL(20,10))) WHERE id = 9 + {r:500} AND JSON_LENGTH(k) < 12;
UPDATE t SET j = JSON_ARRAY(1.0, 1, 1e0, {n}e-5, CURRENT_TIMESTAMP(6)) WHERE id = 9 + {r:500};
