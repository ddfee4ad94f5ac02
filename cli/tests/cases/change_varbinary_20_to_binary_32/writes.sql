UPDATE t SET v = CONCAT(UNHEX(LPAD(HEX({r:9999}), 4, '0')), X'0000') WHERE id = {r:900};
INSERT INTO t (a, v) VALUES ({n}, CONCAT(UNHEX(LPAD(HEX({r:9999}), 4, '0')), X'0000'));
UPDATE t SET id = id + 100000 + {n} * 2000, a = 1 WHERE id = {r:900};
DELETE FROM t WHERE id = {r:1500};
