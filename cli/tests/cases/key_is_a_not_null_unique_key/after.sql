UPDATE t SET v = CONCAT(LEFT(v, 40), '+') WHERE k = {r:1200};
