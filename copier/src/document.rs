//! How a JSON document is written whose text doesn't tell every value's type.

use oxferry_schema::{JsonLeaf, JsonValue, Value};

/// Returns the expression that makes the document out of its text and what the
/// text doesn't tell; the parameters are those of [`params`].
///
/// A TIMESTAMP, a BIT, the kinds of BLOB, and a DECIMAL's very size can't be cast to; columns of
/// `JSON_TABLE` can have these types, and no table is read. Observed on 9.7.4,
/// test `json_documents_keep_the_types_of_their_values`.
pub(crate) fn expression(leaves: &[&JsonLeaf]) -> String {
    let mut sql = "JSON_SET(CAST(? AS JSON)".to_owned();
    let (mut places, mut columns) = (Vec::new(), Vec::new());
    for leaf in leaves {
        sql.push_str(", ?, ");
        match typed(&leaf.value) {
            Typed::Cast(text) | Typed::Literal(text) => sql.push_str(&text),
            Typed::Column(place, data_type) => {
                let at = columns.len();
                sql.push_str(&format!("v{at}"));
                columns.push(format!("v{at} {data_type} PATH '$[{at}]'"));
                places.push(place);
            }
        }
    }
    sql.push(')');
    if columns.is_empty() {
        return sql;
    }
    format!(
        "(SELECT {sql} FROM JSON_TABLE(JSON_ARRAY({}), '$' COLUMNS ({})) typed)",
        places.join(", "),
        columns.join(", ")
    )
}

/// Returns the parameters: the document's text, each path with its value where
/// that is cast, then the values of the columns.
pub(crate) fn params(text: &Value, leaves: &[&JsonLeaf]) -> Vec<Value> {
    let mut params = vec![text.clone()];
    let mut columns = Vec::new();
    for leaf in leaves {
        params.push(Value::from(leaf.path.as_str()));
        match typed(&leaf.value) {
            Typed::Cast(_) => params.push(value(&leaf.value)),
            Typed::Literal(_) => {}
            Typed::Column(..) => columns.push(value(&leaf.value)),
        }
    }
    params.extend(columns);
    params
}

/// How a value gets its type.
enum Typed {
    /// By this expression.
    Cast(String),
    /// As this constant.
    Literal(String),
    /// As what stands at this place, in a column of this type.
    Column(&'static str, String),
}

fn typed(value: &JsonValue) -> Typed {
    let binary = |data_type: &str| Typed::Column("CAST(? AS BINARY)", data_type.to_owned());
    match value {
        JsonValue::Decimal {
            text,
            digits,
            scale,
        } => decimal(text, *digits, *scale),
        JsonValue::Date(_) => Typed::Cast("CAST(? AS DATE)".to_owned()),
        JsonValue::DateTime(_) => Typed::Cast("CAST(? AS DATETIME(6))".to_owned()),
        JsonValue::Timestamp(_) => Typed::Column("?", "TIMESTAMP(6)".to_owned()),
        // As a number, see `param::parameter`.
        JsonValue::Time(_) => Typed::Cast("CAST(CAST(? AS DECIMAL(13,6)) AS TIME(6))".to_owned()),
        JsonValue::Bytes { type_code, bytes } => match type_code {
            16 => Typed::Column("CAST(? AS UNSIGNED)", format!("BIT({})", bytes.len() * 8)),
            249 => binary("TINYBLOB"),
            250 => binary("MEDIUMBLOB"),
            251 => binary("LONGBLOB"),
            252 => binary("BLOB"),
            254 => binary(&format!("BINARY({})", bytes.len())),
            _ => Typed::Cast("CAST(? AS BINARY)".to_owned()),
        },
    }
}

/// A cast gives room for nine digits at a time, and so another size. The
/// server's own arithmetic may leave more digits than a column can have.
///
/// Where no digit but zeros stands before the point, a column gives no room for
/// these, a constant for one, and a cast for nine. Observed on 9.7.4, test
/// `documents_keep_types_and_sizes`.
fn decimal(text: &str, digits: u8, scale: u8) -> Typed {
    let whole = text.trim_start_matches('-').split('.').next();
    let is_zero = whole.is_some_and(|whole| whole.bytes().all(|digit| digit == b'0'));
    let is_number = text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'-' | b'.'));
    let data_type = format!("DECIMAL({},{scale})", digits.min(65));
    match digits.saturating_sub(scale) {
        1 if is_zero && is_number => Typed::Literal(text.to_owned()),
        2.. if is_zero => Typed::Cast(format!("CAST(? AS {data_type})")),
        _ => Typed::Column("?", data_type),
    }
}

fn value(value: &JsonValue) -> Value {
    match value {
        JsonValue::Decimal { text, .. }
        | JsonValue::Date(text)
        | JsonValue::DateTime(text)
        | JsonValue::Timestamp(text) => Value::from(text.as_str()),
        JsonValue::Time(text) => Value::from(text.replace(':', "")),
        JsonValue::Bytes {
            type_code: 16,
            bytes,
        } => {
            let bits = bytes
                .iter()
                .fold(0, |high: u64, byte| high << 8 | u64::from(*byte));
            Value::UInt(bits)
        }
        JsonValue::Bytes { bytes, .. } => Value::Bytes(bytes.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_set_at_its_path_with_its_type() {
        let leaf = |path: &str, value| JsonLeaf {
            column: 0,
            path: path.to_owned(),
            value,
        };
        let leaves = [
            leaf(
                "$.d",
                JsonValue::Decimal {
                    text: "1.10".to_owned(),
                    digits: 3,
                    scale: 2,
                },
            ),
            leaf("$.t", JsonValue::Time("-12:34:56.500000".to_owned())),
            leaf(
                "$.b",
                JsonValue::Bytes {
                    type_code: 16,
                    bytes: [2, 5].into(),
                },
            ),
        ];
        let leaves: Vec<&JsonLeaf> = leaves.iter().collect();
        assert_eq!(
            expression(&leaves[..2]),
            "(SELECT JSON_SET(CAST(? AS JSON), ?, v0, ?, CAST(CAST(? AS DECIMAL(13,6)) AS TIME(6))) \
             FROM JSON_TABLE(JSON_ARRAY(?), '$' COLUMNS (v0 DECIMAL(3,2) PATH '$[0]')) typed)"
        );
        assert_eq!(
            expression(&leaves[1..]),
            "(SELECT JSON_SET(CAST(? AS JSON), ?, CAST(CAST(? AS DECIMAL(13,6)) AS TIME(6)), ?, v0) \
             FROM JSON_TABLE(JSON_ARRAY(CAST(? AS UNSIGNED)), '$' COLUMNS (v0 BIT(16) PATH '$[0]')) typed)"
        );
        let params = params(&Value::from("{}"), &leaves);
        assert_eq!(params.len(), 7);
        assert_eq!(params[3], Value::from("-123456.500000"));
        assert_eq!(params[5..], [Value::from("1.10"), Value::UInt(517)]);
    }
}
