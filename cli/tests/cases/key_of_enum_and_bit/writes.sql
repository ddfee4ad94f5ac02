INSERT INTO t (a, b, v) VALUES (1 + ({r:2400}) % 3, ({r:2400}), 'new {n}') ON DUPLICATE KEY UPDATE v = CONCAT(LEFT(t.v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+') WHERE a = 1 + ({r:1200}) % 3 AND b = ({r:1200});
DELETE FROM t WHERE a = 1 + ({r:2400}) % 3 AND b = ({r:2400});
UPDATE t SET a = 'a' WHERE a = 'x' AND b = {r:1200};
