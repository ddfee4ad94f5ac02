INSERT INTO t (a, b) VALUES ({n}, 'x');
