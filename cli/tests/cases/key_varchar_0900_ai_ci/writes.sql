INSERT INTO t (k, v, n) VALUES (CONCAT(ELT(1 + ({r:2400}) % 4, 'é', 'Z', 'ß', 'ñ'), 'key', {r:2400}), 'new {n}', {n}) ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+'), n = n + 1 WHERE k = CONCAT(ELT(1 + ({r:1200}) % 4, 'é', 'Z', 'ß', 'ñ'), 'key', {r:1200});
DELETE FROM t WHERE k = CONCAT(ELT(1 + ({r:2400}) % 4, 'é', 'Z', 'ß', 'ñ'), 'key', {r:2400});
UPDATE t SET k = UPPER(k) WHERE k = CONCAT(ELT(1 + ({r:1200}) % 4, 'é', 'Z', 'ß', 'ñ'), 'key', {r:1200});
UPDATE t SET k = LOWER(k) WHERE k = CONCAT(ELT(1 + ({r:1200}) % 4, 'é', 'Z', 'ß', 'ñ'), 'key', {r:1200});
