UPDATE a_b SET v = CONCAT(LEFT(v, 40), '+') WHERE id = {r:900};
INSERT INTO axb VALUES ({n}, 5);
DELETE FROM a_b WHERE id = {r:2000};
