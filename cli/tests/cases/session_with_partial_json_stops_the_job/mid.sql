SET SESSION binlog_row_value_options = PARTIAL_JSON; UPDATE t SET j = JSON_SET(j, '$.b', 2) WHERE id = 5;
