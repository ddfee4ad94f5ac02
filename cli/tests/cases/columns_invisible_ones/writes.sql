UPDATE t SET a = {r:10000}, c = c + 1 WHERE id = {r:900};
INSERT INTO t (a, b) VALUES ({n}, 'new');
DELETE FROM t WHERE id = {r:1500};
