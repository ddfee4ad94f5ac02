UPDATE t SET a = 10000 + {n}, j = JSON_SET(j, '$.tags', JSON_ARRAY({n}, {r:100})) WHERE id = {r:700};
UPDATE t SET c = CONCAT('other words ', {n}), b = CONCAT('B', {n}) WHERE id = {r:700};
INSERT INTO t (a, b, c, j, p, v) VALUES (-{n}, 'new', 'new words', '{"tags": [1, 2, 3]}', POINT({n}, {r:10}), {r});
DELETE FROM t WHERE id = {r:1500};
