UPDATE t SET a = CURRENT_TIMESTAMP(6), b = NOW() WHERE id = {r:900};
SET SESSION time_zone = '+09:00';
INSERT INTO t (a, b, v) VALUES ('2024-03-31 02:30:00.5', '2024-03-31 02:30:00', {n});
SET SESSION time_zone = '-11:00';
DELETE FROM t WHERE id = {r:1500};
