//! SQL that turns a row into the bytes that its fingerprint is made of.

use std::collections::BTreeSet;

use oxferry_schema::{Column, Ident, Remedy};

use crate::column::{Kind, is_long, scale, type_numbers};

/// A column of the source and the column of the target that it is copied to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a pair")]
pub struct ColumnPair {
    /// The source's column.
    pub source: Column,
    /// The target's column.
    pub target: Column,
}

/// Expressions for both sides that are equal exactly where the rows are.
///
/// NULL is told apart from every value, and no two rows share an encoding:
/// numbers and times end in a comma, strings begin with their length. Same
/// types are compared byte by byte, so trailing spaces, trailing zero bytes
/// and letter case count; characters are compared as characters where the
/// character sets differ; `-0.0` equals `0.0`. Where the type changed, the
/// source's value is brought to what the target must hold, or both to a type
/// that holds either, so that a value which lost something differs: digits
/// that a FLOAT can't keep, fractions, trailing spaces that a CHAR drops. A value
/// survives FLOAT or DOUBLE when it comes back as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowExpressions {
    source: SideRow,
    target: SideRow,
}

/// One side's expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideRow {
    sql: String,
    columns: Vec<SideColumn>,
}

/// One column of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideColumn {
    name: Ident,
    column_type: String,
    charset: Option<String>,
    encoded: String,
}

/// Why two tables can't be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// There is no way to tell whether the values are equal.
    #[error("column {column} changes from {from} to {to}, which can't be compared: {reason}")]
    Incomparable {
        /// The source's column.
        column: Ident,
        /// Its type.
        from: String,
        /// The type of the target's column.
        to: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// A key column is not compared.
    #[error(
        "column {column} is part of the key that tells rows apart while they are copied, and goes with \
         the change: keep it for now, and drop it in a change of its own once another key stands"
    )]
    KeyLeftOut {
        /// The column.
        column: Ident,
    },
    /// A column to ignore doesn't exist.
    #[error("column {column} is to be ignored, but no such column is compared")]
    Unknown {
        /// The column.
        column: Ident,
    },
}

impl ExpressionError {
    /// Says what to do about this error.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Incomparable { .. } | Self::KeyLeftOut { .. } | Self::Unknown { .. } => {
                Remedy::Usage
            }
        }
    }
}

impl RowExpressions {
    /// Builds the expressions for all `pairs` apart from those whose source
    /// column is `ignored`. `key` names the source's key columns.
    ///
    /// # Errors
    ///
    /// [`ExpressionError`] when some pair can't be compared.
    pub fn new(
        pairs: &[ColumnPair],
        key: &[Ident],
        ignored: &[Ident],
    ) -> Result<Self, ExpressionError> {
        let is_there = |name: &&Ident| pairs.iter().any(|pair| pair.source.name == **name);
        if let Some(column) = ignored.iter().find(|name| !is_there(name)) {
            let column = column.clone();
            return Err(ExpressionError::Unknown { column });
        }
        let is_left_out = |name: &&Ident| !is_there(name) || ignored.contains(name);
        if let Some(column) = key.iter().find(is_left_out) {
            let column = column.clone();
            return Err(ExpressionError::KeyLeftOut { column });
        }
        let mut sides = (SideRow::default(), SideRow::default());
        for pair in pairs.iter().filter(|p| !ignored.contains(&p.source.name)) {
            let (source, target) = encode(pair)?;
            sides.0.push(&pair.source, source);
            sides.1.push(&pair.target, target);
        }
        Ok(Self {
            source: sides.0.whole(),
            target: sides.1.whole(),
        })
    }

    /// Returns the source's expressions.
    #[must_use]
    pub const fn source(&self) -> &SideRow {
        &self.source
    }

    /// Returns the target's expressions.
    #[must_use]
    pub const fn target(&self) -> &SideRow {
        &self.target
    }
}

impl SideRow {
    const fn default() -> Self {
        Self {
            sql: String::new(),
            columns: Vec::new(),
        }
    }

    fn push(&mut self, column: &Column, encoding: Encoding) {
        self.columns.push(SideColumn {
            name: column.name.clone(),
            column_type: column.column_type.clone(),
            charset: column.charset.clone(),
            encoded: encoding.sql(column),
        });
    }

    fn whole(mut self) -> Self {
        let all: Vec<&str> = self.columns.iter().map(|c| c.encoded.as_str()).collect();
        self.sql = format!("SHA2(CONCAT({}),256)", all.join(","));
        self
    }

    /// Returns the row's expression: 64 hexadecimal digits.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the columns, in the same order on both sides.
    #[must_use]
    pub fn columns(&self) -> &[SideColumn] {
        &self.columns
    }
}

impl SideColumn {
    /// Returns the column's own expression: 64 hexadecimal digits, the other
    /// side's where the values are equal.
    #[must_use]
    pub fn hash(&self) -> String {
        format!("SHA2(CONCAT({}),256)", self.encoded)
    }

    /// Returns the column's name and its type, with its character set.
    #[must_use]
    pub fn label(&self) -> (String, String) {
        let charset = self.charset.as_ref();
        let charset = charset.map_or_else(String::new, |name| format!(" {name}"));
        let name = self.name.as_str().to_owned();
        (name, format!("{}{charset}", self.column_type))
    }
}

/// How a value is written among others.
enum Encoding {
    /// Text without a comma.
    Short(String),
    /// Any bytes.
    Bytes(String),
    /// Any number of bytes.
    Long(String),
}

impl Encoding {
    fn sql(self, column: &Column) -> String {
        match (self, column.nullable) {
            (Self::Short(value), false) => format!("{value},','"),
            (Self::Short(value), true) => format!("IFNULL({value},'N'),','"),
            (Self::Bytes(value), false) => format!("LENGTH({value}),':',{value}"),
            (Self::Bytes(value), true) => {
                format!("IFNULL(CONCAT(LENGTH({value}),':',{value}),'N')")
            }
            (Self::Long(value), false) => format!("SHA2({value},256),','"),
            (Self::Long(value), true) => {
                // A value beyond max_allowed_packet gives NULL too, and must
                // not look like a NULL column: then the whole row is NULL.
                let name = &column.name;
                format!("IF({name} IS NULL,'N',SHA2({value},256)),','")
            }
        }
    }
}

/// Returns why a pair can't be compared.
fn reason(source: &Column, target: &Column) -> &'static str {
    match (Kind::of(source), Kind::of(target)) {
        (Some(Kind::Time), Some(Kind::Date | Kind::DateTime)) => {
            "the result depends on the day it is done; add a column and fill it by an UPDATE"
        }
        (Some(Kind::Date | Kind::DateTime), Some(Kind::Time)) => {
            "the date gets lost; add a column and fill it by an UPDATE"
        }
        (Some(_), Some(Kind::Json)) => {
            "the server doesn't make JSON of it; change it to text first, then to JSON"
        }
        (Some(Kind::Json), Some(_)) => "change it to text first, then to the other type",
        _ => "change its type in two steps, by way of text or of a number",
    }
}

/// Returns how both sides of a pair are written.
fn encode(pair: &ColumnPair) -> Result<(Encoding, Encoding), ExpressionError> {
    let incomparable = || ExpressionError::Incomparable {
        column: pair.source.name.clone(),
        from: pair.source.column_type.clone(),
        to: pair.target.column_type.clone(),
        reason: reason(&pair.source, &pair.target),
    };
    let kinds = Kind::of(&pair.source).zip(Kind::of(&pair.target));
    let (from, to) = kinds.ok_or_else(incomparable)?;
    if let Some((source, target)) = short(pair, from, to) {
        return Ok((Encoding::Short(source), Encoding::Short(target)));
    }
    let (source, target) = bytes(pair, from, to).ok_or_else(incomparable)?;
    Ok(if is_long(&pair.source) || is_long(&pair.target) {
        (Encoding::Long(source), Encoding::Long(target))
    } else {
        (Encoding::Bytes(source), Encoding::Bytes(target))
    })
}

/// Returns expressions for numbers and times; `None` where bytes are compared.
fn short(pair: &ColumnPair, from: Kind, to: Kind) -> Option<(String, String)> {
    let (source, target) = (&pair.source, &pair.target);
    let (s, t) = (&source.name, &target.name);
    Some(match (from, to) {
        (Kind::Decimal, Kind::Decimal) if scale(source) == scale(target) => {
            (number(source, from), number(target, to))
        }
        (from, to) if from.is_exact() && to.is_exact() => {
            (trimmed(source, from), trimmed(target, to))
        }
        (Kind::Member, to) if to.is_exact() => (trimmed(source, from), trimmed(target, to)),
        (from, Kind::Member) if from.is_exact() => (trimmed(source, from), trimmed(target, to)),
        (Kind::Decimal, to) if to.is_approximate() => {
            // Back to what the source's type holds.
            let back = format!("CAST(({t}+0e0) AS {})", decimal(source));
            (number(source, from), back)
        }
        (from, to) if from.is_exact() && to.is_approximate() => (
            number(source, from),
            format!("CAST(({t}+0e0) AS DECIMAL(65,0))"),
        ),
        (Kind::Float, Kind::Decimal) => (format!("({s}+0e0)"), format!("(CAST({t} AS FLOAT)+0e0)")),
        (from, to) if is_real(from, to) || is_real(to, from) => {
            (format!("({s}+0e0)"), format!("({t}+0e0)"))
        }
        (Kind::Member, Kind::Member) if is_set(source) && is_set(target) => {
            if target.members.starts_with(&source.members) {
                return None;
            }
            (held(source, pair), held(target, pair))
        }
        (Kind::Date | Kind::DateTime | Kind::Time, to) if to.is_exact() && to != Kind::Year => {
            let fraction = type_numbers(source)
                .first()
                .is_some_and(|digits| *digits > 0);
            let value = format!("({s}+0)");
            let value = if fraction { trim(&value) } else { value };
            (value, trimmed(target, to))
        }
        (Kind::Integer | Kind::Decimal, to) if to.is_instant() => (
            known(s, &format!("CAST({s} AS DATETIME(6))")),
            format!("CAST({t} AS DATETIME(6))"),
        ),
        (Kind::Integer | Kind::Decimal, Kind::Time) => (
            known(s, &format!("CAST({s} AS TIME(6))")),
            format!("CAST({t} AS TIME(6))"),
        ),
        (Kind::Date, Kind::Date) => (s.to_string(), t.to_string()),
        (from, to) if from.is_instant() && to.is_instant() => {
            temporal(source, target, "DATETIME(6)")
        }
        (Kind::Time, Kind::Time) => temporal(source, target, "TIME(6)"),
        (from, to) if is_characters(from) && to.is_instant() => (
            known(s, &format!("CAST({s} AS DATETIME(6))")),
            format!("CAST({t} AS DATETIME(6))"),
        ),
        (from, Kind::Time) if is_characters(from) => (
            known(s, &format!("CAST({s} AS TIME(6))")),
            format!("CAST({t} AS TIME(6))"),
        ),
        (from, Kind::Integer | Kind::Decimal | Kind::Bit) if is_characters(from) => {
            let value = format!("CAST({s} AS DECIMAL(65,30))");
            (checked(s, &trim(&value)), trimmed(target, to))
        }
        (from, to) if is_characters(from) && to.is_approximate() => {
            let narrow = if to == Kind::Float { "FLOAT" } else { "DOUBLE" };
            let value = format!("CAST((CAST({s} AS {narrow})+0e0) AS CHAR)");
            (checked(s, &value), format!("({t}+0e0)"))
        }
        _ => return None,
    })
}

/// Returns expressions for bytes; `None` where there is no way to compare.
fn bytes(pair: &ColumnPair, from: Kind, to: Kind) -> Option<(String, String)> {
    let (source, target) = (&pair.source, &pair.target);
    let (s, t) = (&source.name, &target.name);
    let is_json = from == Kind::Json || to == Kind::Json;
    // What the source's value is before its character set counts.
    let text = match (from, to) {
        (Kind::Json, Kind::Json) => document(s),
        (from, Kind::Json) if from.is_text() => format!("CAST(CAST({s} AS JSON) AS CHAR)"),
        (_, Kind::Json) => return None,
        // As the digits of the number.
        (Kind::Bit, to) if to.is_binary() || is_characters(to) => format!("CAST({s}+0 AS CHAR)"),
        (from, _) if is_characters(from) || from.is_binary() => s.to_string(),
        (from, to) if from != Kind::Bit && (is_characters(to) || to.is_binary()) => {
            format!("CAST({s} AS CHAR)")
        }
        _ => return None,
    };
    let is_same = source.charset == target.charset;
    let is_raw = from.is_binary() || to.is_binary() || (is_same && !is_json);
    let pad = match (to, type_numbers(target).first()) {
        (Kind::FixedBinary, Some(length)) => format!("({length})"),
        _ => String::new(),
    };
    let target_text = if from == Kind::Json && to == Kind::Json {
        document(t)
    } else if to == Kind::Json {
        format!("CAST({t} AS CHAR)")
    } else {
        t.to_string()
    };
    Some(if is_raw {
        (
            format!("CAST({text} AS BINARY{pad})"),
            format!("CAST({target_text} AS BINARY)"),
        )
    } else {
        (
            format!("CAST(CONVERT({text} USING utf8mb4) AS BINARY)"),
            format!("CAST(CONVERT({target_text} USING utf8mb4) AS BINARY)"),
        )
    })
}

/// A JSON document's text, and the size of its binary form: a date and its text
/// look alike, and so do a decimal and a double, but take different room.
///
/// The size is that of a fresh document: one that was changed in place may keep
/// room that it doesn't need. Source: MySQL 9.7 manual, `JSON_STORAGE_SIZE`.
fn document(name: &Ident) -> String {
    format!("CONCAT(JSON_STORAGE_SIZE(JSON_ARRAY({name})),' ',CAST({name} AS CHAR))")
}

const fn is_characters(kind: Kind) -> bool {
    matches!(kind, Kind::Char | Kind::Text | Kind::Member)
}

/// Returns a number's text as the server prints it, without leading zeros.
fn number(column: &Column, kind: Kind) -> String {
    let name = &column.name;
    let is_plain = matches!(kind, Kind::Integer | Kind::Decimal);
    if is_plain && !column.column_type.contains("zerofill") {
        name.to_string()
    } else {
        format!("({name}+0)")
    }
}

/// Returns an exact number's text without zeros behind the point.
fn trimmed(column: &Column, kind: Kind) -> String {
    let value = number(column, kind);
    if kind == Kind::Decimal && scale(column) > 0 {
        trim(&value)
    } else {
        value
    }
}

fn trim(value: &str) -> String {
    format!("TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {value}))")
}

/// Returns whether `one` is FLOAT or DOUBLE and `other` a kind of number that it
/// is compared with as such.
const fn is_real(one: Kind, other: Kind) -> bool {
    let is_number = other.is_exact() || other.is_approximate();
    one.is_approximate() && (is_number || matches!(other, Kind::Member))
}

fn is_set(column: &Column) -> bool {
    column.data_type == "set"
}

/// Returns which of the members, whose order changes, a SET's value has.
fn held(column: &Column, pair: &ColumnPair) -> String {
    let members: BTreeSet<&String> = [&pair.source, &pair.target]
        .into_iter()
        .flat_map(|side| &side.members)
        .collect();
    let text = format!("CONVERT({} USING utf8mb4) COLLATE utf8mb4_bin", column.name);
    let has = |member: &&String| {
        let digits: String = member.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("FIND_IN_SET(_utf8mb4 x'{digits}',{text})>0")
    };
    let all: Vec<String> = members.iter().map(has).collect();
    format!("CONCAT({})", all.join(","))
}

/// Returns `value`, or what no value looks like where the server finds none.
fn known(name: &Ident, value: &str) -> String {
    format!("IF({name} IS NULL,NULL,IFNULL({value},'X'))")
}

fn decimal(column: &Column) -> String {
    match type_numbers(column).as_slice() {
        [digits, scale] => format!("DECIMAL({digits},{scale})"),
        [digits] => format!("DECIMAL({digits},0)"),
        _ => "DECIMAL(10,0)".to_owned(),
    }
}

/// Returns both values as they are where their types print alike, else both
/// with six digits behind the point.
fn temporal(source: &Column, target: &Column, wide: &str) -> (String, String) {
    let (s, t) = (&source.name, &target.name);
    let is_day = source.data_type == "date" || target.data_type == "date";
    if !is_day && type_numbers(source) == type_numbers(target) {
        return (s.to_string(), t.to_string());
    }
    (
        format!("CAST({s} AS {wide})"),
        format!("CAST({t} AS {wide})"),
    )
}

/// Returns `value` where the text is a number, else what is no number's text.
fn checked(name: &Ident, value: &str) -> String {
    let text = format!("CONVERT({name} USING utf8mb4)");
    format!("IF({name} IS NULL,NULL,IF({text} REGEXP {NUMBER},{value},'X'))")
}

/// What the whole text must look like to be taken as a number.
const NUMBER: &str = "'^ *[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)? *$'";
