BEGIN;
UPDATE t SET u = -1 WHERE id = 1 + {n:300};
UPDATE t SET u = 1 + {n:300} WHERE id = 601 + {n:300} AND NOT EXISTS (SELECT 1 FROM (SELECT u FROM t WHERE u = 1 + {n:300}) AS x);
UPDATE t SET u = 2000000 + {n} WHERE id = 1 + {n:300};
COMMIT;
UPDATE t SET u = 1 + {n:300} WHERE id = 601 + {n:300};
DELETE FROM t WHERE id = 301 + {r:300};
