//! How a value of a source column is written as a statement parameter.

use oxferry_schema::{Column, KeyKind, Value};

/// Returns the SQL expression that turns a parameter, as
/// [`Row`](oxferry_schema::Row) describes it, back into a value of the source
/// column's own type.
///
/// From there the server converts to the target's type as it does when it
/// reads the column itself, in `INSERT … SELECT`: a row gets the same value
/// whichever way it comes.
pub(crate) fn expression(column: &Column, target: &Column) -> String {
    if is_member_as_number(column, target) {
        return "?".to_owned();
    }
    let digits = digits(&column.column_type);
    match column.data_type.as_str() {
        "decimal" | "numeric" => format!("CAST(? AS DECIMAL({}))", digits.unwrap_or("10,0")),
        "float" => "CAST(? AS FLOAT)".to_owned(),
        "year" => "CAST(? AS YEAR)".to_owned(),
        "date" => "CAST(? AS DATE)".to_owned(),
        "datetime" | "timestamp" => format!("CAST(? AS DATETIME({}))", digits.unwrap_or("0")),
        "time" => format!(
            "CAST(CAST(? AS DECIMAL(13,6)) AS TIME({}))",
            digits.unwrap_or("0")
        ),
        "json" => "CAST(? AS JSON)".to_owned(),
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => text(column),
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => {
            "CAST(? AS BINARY)".to_owned()
        }
        "vector" => "CAST(? AS BINARY)".to_owned(),
        // Integers, BIT, DOUBLE; the text of ENUM and SET members; geometry.
        _ => "?".to_owned(),
    }
}

/// Returns the parameter for a value.
///
/// A TIME travels as the decimal number HHHMMSS.ffffff. In binary form the
/// server refuses some that are in range ("TIME value is out of range in
/// 'set_parameter_value'"), and it takes some texts, `0:00:00.000001`, for a
/// date and a time. Both observed on 9.7.4, test `times`.
///
/// A member of an ENUM or SET becomes the number that it is in the source's
/// list where the target takes numbers: so does the server, and its text would
/// be read as the digits of one.
pub(crate) fn parameter(value: &Value, column: &Column, target: &Column) -> Value {
    if is_member_as_number(column, target) {
        let part = KeyKind::of(column).and_then(|kind| kind.part(value));
        return part.map_or_else(|| value.clone(), |part| part.to_value());
    }
    let Value::Time(negative, days, hours, minutes, seconds, micros) = value else {
        return value.clone();
    };
    let sign = if *negative { "-" } else { "" };
    let hours = u64::from(*days) * 24 + u64::from(*hours);
    Value::from(format!("{sign}{hours}{minutes:02}{seconds:02}.{micros:06}"))
}

/// Returns whether a value is an ENUM's number 0: the empty text, where the list
/// has no such member, written once without strict mode.
///
/// Copied from column to column it stays what it is; as a parameter strict mode
/// takes it for a wrong member (1265). Both observed on 9.7.4.
pub(crate) fn is_no_member(value: &Value, column: &Column, target: &Column) -> bool {
    let is_empty = matches!(value, Value::Bytes(text) if text.is_empty());
    let lists = [column, target];
    let is_enum =
        |list: &Column| list.data_type == "enum" && !list.members.contains(&String::new());
    is_empty && lists.into_iter().all(is_enum)
}

/// Returns whether the server takes a member's number, and not its text.
fn is_member_as_number(column: &Column, target: &Column) -> bool {
    let is_list = matches!(column.data_type.as_str(), "enum" | "set");
    is_list
        && matches!(
            target.data_type.as_str(),
            "tinyint"
                | "smallint"
                | "mediumint"
                | "int"
                | "bigint"
                | "decimal"
                | "float"
                | "double"
                | "bit"
                | "year"
        )
}

/// The column's own bytes, read in its own character set.
///
/// The connection speaks utf8mb4, of which utf8mb3 and ascii are part; bytes of
/// any other set must not be taken for it.
fn text(column: &Column) -> String {
    match column.charset.as_deref() {
        None | Some("utf8mb4" | "utf8mb3" | "utf8" | "ascii") => "?".to_owned(),
        Some(charset) => {
            // A character set's name is letters and digits, wherever it came from.
            let charset: String = charset
                .chars()
                .filter(char::is_ascii_alphanumeric)
                .collect();
            format!("CONVERT(CAST(? AS BINARY) USING {charset})")
        }
    }
}

/// Returns what stands in the type's brackets, if it is digits and commas.
fn digits(column_type: &str) -> Option<&str> {
    let (_, rest) = column_type.split_once('(')?;
    let (inside, _) = rest.split_once(')')?;
    inside
        .chars()
        .all(|c| c.is_ascii_digit() || c == ',')
        .then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::column;

    fn check(column_type: &str, charset: Option<&str>, expected: &str) {
        let mut column = column("c", column_type);
        column.charset = charset.map(str::to_owned);
        assert_eq!(expression(&column, &column), expected, "{column_type}");
    }

    #[test]
    fn a_parameter_takes_the_source_columns_type() {
        check("bigint unsigned", None, "?");
        check("decimal(20,3) unsigned", None, "CAST(? AS DECIMAL(20,3))");
        check("datetime(6)", None, "CAST(? AS DATETIME(6))");
        check("timestamp", None, "CAST(? AS DATETIME(0))");
        check("time(2)", None, "CAST(CAST(? AS DECIMAL(13,6)) AS TIME(2))");
        check("binary(16)", None, "CAST(? AS BINARY)");
        check("json", None, "CAST(? AS JSON)");
        check("enum('a','b')", Some("latin1"), "?");
    }

    #[test]
    fn a_time_travels_as_a_number() {
        let column = column("c", "time(6)");
        assert_eq!(
            parameter(&Value::Time(true, 34, 22, 59, 58, 7), &column, &column),
            Value::from("-8385958.000007")
        );
    }

    #[test]
    fn a_member_is_a_number_where_the_target_takes_numbers() {
        let mut list = column("c", "enum('5','b')");
        list.members = vec!["5".to_owned(), "b".to_owned()];
        let found = |target| parameter(&Value::from("5"), &list, &column("c", target));
        assert_eq!(found("int"), Value::Int(1));
        assert_eq!(found("varchar(9)"), Value::from("5"));
    }

    #[test]
    fn text_is_read_in_its_own_character_set() {
        check("varchar(20)", Some("utf8mb4"), "?");
        check(
            "varchar(20)",
            Some("latin1"),
            "CONVERT(CAST(? AS BINARY) USING latin1)",
        );
        check(
            "text",
            Some("ucs2"),
            "CONVERT(CAST(? AS BINARY) USING ucs2)",
        );
    }
}
