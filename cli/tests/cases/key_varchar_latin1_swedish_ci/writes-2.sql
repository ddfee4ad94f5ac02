UPDATE t SET k = CONCAT(ELT(1 + ({r:2400}) % 3, 'é', 'Å', 'ü'), {r:2400}) WHERE k = CONCAT(ELT(1 + ({r:2400}) % 3, 'é', 'Å', 'ü'), {r:2400});
BEGIN;
UPDATE t SET n = n + 1 WHERE k = CONCAT(ELT(1 + ({r:1200}) % 3, 'é', 'Å', 'ü'), {r:1200});
UPDATE t SET v = 'both' WHERE k = CONCAT(ELT(1 + ({r:1200}) % 3, 'é', 'Å', 'ü'), {r:1200});
COMMIT;
