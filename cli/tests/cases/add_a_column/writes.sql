INSERT INTO t (v, n) VALUES ('new {n}', {r:1000});
UPDATE t SET v = CONCAT(v, '+'), n = n + 1 WHERE id = 1 + {r:1500} AND LENGTH(v) < 35;
DELETE FROM t WHERE id = 1 + {r:3000};
UPDATE t SET id = id + 10000 * (1 + {n}) WHERE id = 1 + {r:1500};
