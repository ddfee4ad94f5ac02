SET SESSION binlog_row_image = MINIMAL; UPDATE t SET b = 'x' WHERE id = 5;
