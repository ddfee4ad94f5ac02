UPDATE t SET v = v + 1;
UPDATE t SET id = id + 1;
