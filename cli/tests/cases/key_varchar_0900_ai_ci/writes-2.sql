UPDATE t SET k = CONCAT(ELT(1 + ({r:2400}) % 4, 'é', 'Z', 'ß', 'ñ'), 'key', {r:2400}) WHERE k = CONCAT(ELT(1 + ({r:2400}) % 4, 'é', 'Z', 'ß', 'ñ'), 'key', {r:2400});
BEGIN;
UPDATE t SET n = n + 1 WHERE k = CONCAT(ELT(1 + ({r:1200}) % 4, 'é', 'Z', 'ß', 'ñ'), 'key', {r:1200});
UPDATE t SET v = 'both' WHERE k = CONCAT(ELT(1 + ({r:1200}) % 4, 'é', 'Z', 'ß', 'ñ'), 'key', {r:1200});
COMMIT;
