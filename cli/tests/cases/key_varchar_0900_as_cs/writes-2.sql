UPDATE t SET k = CONCAT(ELT(1 + ({r:2400}) % 4, 'é', 'E', 'e', 'É'), 'key', ({r:2400}) DIV 4) WHERE k = CONCAT(ELT(1 + ({r:2400}) % 4, 'é', 'E', 'e', 'É'), 'key', ({r:2400}) DIV 4);
BEGIN;
UPDATE t SET n = n + 1 WHERE k = CONCAT(ELT(1 + ({r:1200}) % 4, 'é', 'E', 'e', 'É'), 'key', ({r:1200}) DIV 4);
UPDATE t SET v = 'both' WHERE k = CONCAT(ELT(1 + ({r:1200}) % 4, 'é', 'E', 'e', 'É'), 'key', ({r:1200}) DIV 4);
COMMIT;
