UPDATE `a``b.c%d` SET `v.%s'"` = CONCAT(LEFT(`v.%s'"`, 40), '+') WHERE `k``y` = {r:900};
INSERT INTO `a``b.c%d` (`k``y`) VALUES (10000 + {n});
DELETE FROM `a``b.c%d` WHERE `k``y` = {r:2000};
