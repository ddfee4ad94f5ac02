INSERT INTO t (a, b, v) VALUES (({r:2400}) % 11 - 5, ({r:2400}) DIV 11, 'new {n}') ON DUPLICATE KEY UPDATE v = CONCAT(LEFT(t.v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+') WHERE a = ({r:1200}) % 11 - 5 AND b = ({r:1200}) DIV 11;
DELETE FROM t WHERE a = ({r:2400}) % 11 - 5 AND b = ({r:2400}) DIV 11;
UPDATE t SET a = a + 1 WHERE a = {r:11} - 5 AND b = {r:110};
UPDATE t SET b = b - 200 WHERE a = {r:11} - 5 AND b = {r:110};
