INSERT INTO t (a, b, c, d, e, v) VALUES (({r:2400}) % 2, ({r:2400}) % 3, ({r:2400}) % 5 - 2, ({r:2400}) % 7, ({r:2400}), 'new {n}') ON DUPLICATE KEY UPDATE v = CONCAT(LEFT(t.v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+') WHERE e = ({r:1200});
DELETE FROM t WHERE e = ({r:2400});
UPDATE t SET a = 1 - a WHERE e = {r:1200};
UPDATE t SET e = e + 5000 WHERE e = {r:1200};
