//! JSON documents whose text doesn't tell the types of their values.

use mysql_async::{Conn, Error as DriverError, prelude::Queryable};
use oxferry_schema::{Column, JsonLeaf, JsonValue, Key, Predicate, Row, Value};

use super::read::Reader;
use crate::CopyPlan;

/// Returns an expression that is true for a row with such a document in one of
/// the columns.
///
/// `$**.*` are all members of all objects, `$**[*]` all elements of all arrays.
pub(super) fn is_special(columns: &[&Column]) -> String {
    let one = |column: &&Column| {
        let name = &column.name;
        let within = |path: &str| {
            format!(
                "EXISTS (SELECT 1 FROM JSON_TABLE({name}, '{path}' COLUMNS (v JSON PATH '$')) typed \
                 WHERE JSON_TYPE(v) IN ({TYPES}))"
            )
        };
        format!(
            "COALESCE(JSON_TYPE({name}) IN ({TYPES}) OR {} OR {}, FALSE)",
            within("$**.*"),
            within("$**[*]")
        )
    };
    let all: Vec<String> = columns.iter().map(one).collect();
    format!("({})", all.join(" OR "))
}

/// The types that `JSON_TYPE` tells and a document's text doesn't.
/// Source: MySQL 9.7 manual, "JSON_TYPE".
const TYPES: &str = "'DECIMAL', 'DATE', 'TIME', 'DATETIME', 'TIMESTAMP', 'BLOB', 'BIT', 'OPAQUE'";

/// Reads rows by key, with what the text of their documents doesn't tell.
pub(super) async fn rows(
    reader: &Reader,
    plan: &CopyPlan,
    (conn, keys): (&mut Conn, &[Key]),
) -> Result<Vec<Row>, DriverError> {
    let mut whole = Vec::new();
    for row in reader.rows_by_key(conn, keys).await? {
        let mut leaves = Vec::new();
        if let Some(key) = plan.key().key_of(&row) {
            for (ordinal, from, _) in plan.pairs().filter(|(_, from, _)| from.data_type == "json") {
                let Some(Value::Bytes(text)) = row.values().get(ordinal) else {
                    continue;
                };
                let document = Document {
                    plan,
                    key: &key,
                    column: from,
                    ordinal,
                };
                leaves.extend(document.leaves(conn, text).await?);
            }
        }
        whole.push(row.with_leaves(leaves));
    }
    Ok(whole)
}

/// One row's document.
struct Document<'a> {
    plan: &'a CopyPlan,
    key: &'a Key,
    column: &'a Column,
    ordinal: usize,
}

impl Document<'_> {
    /// Asks the server for the types at every place of the document where its
    /// text may not tell them.
    async fn leaves(&self, conn: &mut Conn, text: &[u8]) -> Result<Vec<JsonLeaf>, DriverError> {
        let document =
            serde_json::from_slice(text).map_err(|error| DriverError::Other(Box::new(error)))?;
        let mut paths = Vec::new();
        add_paths(&document, &mut "$".to_owned(), &mut paths);
        let mut leaves = Vec::new();
        for paths in paths.chunks(PATHS_MAX) {
            let found = self.ask(conn, paths).await?;
            for (path, found) in paths.iter().zip(found.chunks(ANSWERS)) {
                let [kind, text, size] = found else {
                    return Err(changed());
                };
                let (Some(kind), Some(text)) = (text_of(kind), text_of(text)) else {
                    continue;
                };
                let value = match kind.as_str() {
                    "DECIMAL" => decimal(text, number_of(size).ok_or_else(changed)?),
                    "DATE" => JsonValue::Date(text),
                    "DATETIME" => JsonValue::DateTime(text),
                    "TIMESTAMP" => JsonValue::Timestamp(text),
                    "TIME" => JsonValue::Time(text),
                    _ => bytes(conn, &text).await?,
                };
                let (column, path) = (self.ordinal, path.clone());
                leaves.push(JsonLeaf {
                    column,
                    path,
                    value,
                });
            }
        }
        Ok(leaves)
    }

    /// Asks for the type, the text and the size of the value at each path; for
    /// no text where the type needs none.
    async fn ask(&self, conn: &mut Conn, paths: &[String]) -> Result<Vec<Value>, DriverError> {
        let value = format!("JSON_EXTRACT({}, ?)", self.column.name);
        let one = format!(
            "JSON_TYPE({value}), \
             IF(JSON_TYPE({value}) IN ({TYPES}), JSON_UNQUOTE({value}), NULL), \
             JSON_STORAGE_SIZE({value})"
        );
        let row = Predicate::keys([self.key], self.plan.source_side());
        let sql = format!(
            "SELECT {} FROM {} WHERE {}",
            vec![one.as_str(); paths.len()].join(", "),
            self.plan.source().name,
            row.sql()
        );
        let params = paths
            .iter()
            .flat_map(|path| std::iter::repeat_n(Value::from(path.as_str()), PLACES));
        let mut params: Vec<Value> = params.collect();
        params.extend(row.into_params());
        let found: Option<mysql_async::Row> = conn.exec_first(sql, params).await?;
        found.map(mysql_async::Row::unwrap).ok_or_else(changed)
    }
}

/// Lists the paths of all numbers and strings: what is neither has its type in
/// the text.
fn add_paths(value: &serde_json::Value, path: &mut String, paths: &mut Vec<String>) {
    let length = path.len();
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(_) => {}
        serde_json::Value::Number(_) | serde_json::Value::String(_) => paths.push(path.clone()),
        serde_json::Value::Array(elements) => {
            for (at, element) in elements.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                add_paths(element, path, paths);
                path.truncate(length);
            }
        }
        serde_json::Value::Object(members) => {
            for (name, member) in members {
                path.push('.');
                // A path's quoted name is a JSON string.
                path.push_str(&serde_json::Value::from(name.as_str()).to_string());
                add_paths(member, path, paths);
                path.truncate(length);
            }
        }
    }
}

/// Makes a DECIMAL of its text and of the bytes that it takes as a document.
///
/// It has the digits of its text at least; how many its type had shows in its
/// size alone.
fn decimal(text: String, size: usize) -> JsonValue {
    let digits = text.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (whole, scale) = (whole.trim_start_matches('0').len(), fraction.len());
    let packed = |digits: usize| digits / 9 * 4 + PACKED.get(digits % 9).unwrap_or(&0);
    let fits = |whole: &usize| packed(*whole) + packed(scale) + DECIMAL_HEAD == size;
    let room = (whole..=DIGITS_MAX.saturating_sub(scale))
        .find(fits)
        .unwrap_or(whole);
    let small = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
    JsonValue::Decimal {
        text,
        digits: small((room + scale).max(1)),
        scale: small(scale),
    }
}

/// Reads what the server prints for binary values: `base64:type252:AGE=`.
async fn bytes(conn: &mut Conn, text: &str) -> Result<JsonValue, DriverError> {
    let parts = text
        .strip_prefix("base64:type")
        .and_then(|rest| rest.split_once(':'));
    let (type_code, base64) = parts.ok_or_else(changed)?;
    let type_code = type_code.parse().map_err(|_| changed())?;
    let bytes: Option<Option<Vec<u8>>> =
        conn.exec_first("SELECT FROM_BASE64(?)", (base64,)).await?;
    let bytes = bytes.flatten().ok_or_else(changed)?.into();
    Ok(JsonValue::Bytes { type_code, bytes })
}

fn text_of(value: &Value) -> Option<String> {
    mysql_async::from_value_opt(value.clone()).ok()
}

fn number_of(value: &Value) -> Option<usize> {
    mysql_async::from_value_opt(value.clone()).ok()
}

/// A document that isn't what it was a moment ago, which one snapshot excludes.
fn changed() -> DriverError {
    DriverError::Other("the source gave two answers about one JSON document".into())
}

/// The bytes that the digits beyond a multiple of nine take.
/// Source: MySQL source, `decimal.cc`, `dig2bytes`.
const PACKED: [usize; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];

/// What a DECIMAL takes as a document beside its digits: the types of document
/// and value, a length, the numbers of digits. Observed on 9.7.4, test
/// `documents_keep_types_and_sizes`.
const DECIMAL_HEAD: usize = 5;

/// Source: MySQL 9.7 manual, "DECIMAL Data Type Characteristics".
const DIGITS_MAX: usize = 65;

/// Places that one statement asks about.
const PATHS_MAX: usize = 100;

/// What is asked about each place.
const ANSWERS: usize = 3;

/// How often the path stands in that.
const PLACES: usize = 4;
