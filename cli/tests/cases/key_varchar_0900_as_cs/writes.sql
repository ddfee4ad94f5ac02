INSERT INTO t (k, v, n) VALUES (CONCAT(ELT(1 + ({r:2400}) % 4, 'é', 'E', 'e', 'É'), 'key', ({r:2400}) DIV 4), 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = CONCAT(ELT(1 + ({r:1200}) % 4, 'é', 'E', 'e', 'É'), 'key', ({r:1200}) DIV 4);
DELETE FROM t WHERE k = CONCAT(ELT(1 + ({r:2400}) % 4, 'é', 'E', 'e', 'É'), 'key', ({r:2400}) DIV 4);
UPDATE t SET k = UPPER(k) WHERE k = CONCAT(ELT(1 + ({r:1200}) % 4, 'é', 'E', 'e', 'É'), 'key', ({r:1200}) DIV 4);
UPDATE t SET k = LOWER(k) WHERE k = CONCAT(ELT(1 + ({r:1200}) % 4, 'é', 'E', 'e', 'É'), 'key', ({r:1200}) DIV 4);
