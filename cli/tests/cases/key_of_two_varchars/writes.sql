INSERT INTO t (a, b, v) VALUES (CONCAT('é', ({r:2400}) % 7), CONCAT('b', ({r:2400}) DIV 7), 'new {n}') ON DUPLICATE KEY UPDATE v = CONCAT(LEFT(t.v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+') WHERE a = CONCAT('é', ({r:1200}) % 7) AND b = CONCAT('b', ({r:1200}) DIV 7);
DELETE FROM t WHERE a = CONCAT('é', ({r:2400}) % 7) AND b = CONCAT('b', ({r:2400}) DIV 7);
UPDATE t SET a = UPPER(a) WHERE a = CONCAT('é', {r:7}) AND b = CONCAT('b', {r:170});
UPDATE t SET b = CONCAT(b, 'x') WHERE a = CONCAT('é', {r:7}) AND b = CONCAT('b', {r:170});
