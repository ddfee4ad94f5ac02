INSERT INTO t (k, v, n) VALUES (CONCAT(UNHEX(LPAD(HEX(({r:2400}) DIV 5), 4, '0')), REPEAT(X'00', ({r:2400}) % 5)), 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = CONCAT(UNHEX(LPAD(HEX(({r:1200}) DIV 5), 4, '0')), REPEAT(X'00', ({r:1200}) % 5));
DELETE FROM t WHERE k = CONCAT(UNHEX(LPAD(HEX(({r:2400}) DIV 5), 4, '0')), REPEAT(X'00', ({r:2400}) % 5));
