INSERT INTO t (`select`, `order`, v) VALUES (({r:2400}) % 11, ({r:2400}) DIV 11, 'new {n}') ON DUPLICATE KEY UPDATE v = CONCAT(LEFT(t.v, 40), '*');
UPDATE t SET v = CONCAT(LEFT(v, 40), '+') WHERE `select` = ({r:1200}) % 11 AND `order` = ({r:1200}) DIV 11;
DELETE FROM t WHERE `select` = ({r:2400}) % 11 AND `order` = ({r:2400}) DIV 11;
UPDATE t SET `order` = `order` + 200 WHERE `select` = {r:11} AND `order` = {r:110};
