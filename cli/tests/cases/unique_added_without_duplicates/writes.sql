UPDATE t SET u = 100000 + {n}, v = CONCAT('w', {n}) WHERE id = {r:900};
INSERT INTO t (u, v) VALUES (-{n}, CONCAT('new', {n}));
DELETE FROM t WHERE id = {r:1500};
