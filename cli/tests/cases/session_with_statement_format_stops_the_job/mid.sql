SET SESSION binlog_format = STATEMENT; UPDATE t SET b = 'x' WHERE id = 5;
