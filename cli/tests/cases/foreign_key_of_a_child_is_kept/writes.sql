UPDATE t SET b = 'w{n}' WHERE id = {r:600};
INSERT INTO t (p, b) VALUES (1 + {r:3}, 'new');
DELETE FROM t WHERE id = {r:1500};
