//! How one key's values stand in the statements of one table.

use crate::{Column, Ident, Key, KeyKind, KeyPart, Value};

/// A key's columns in one table: the source's own, or those of a target that
/// the key was carried over to, perhaps with other types.
///
/// Key values look the same on both sides: as the *source's* columns hold them.
/// The expressions here bring them to the types of this side and back, so that
/// the server compares in this side's own collation, and reads its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySide {
    columns: Vec<Ident>,
    parts: Vec<SidePart>,
}

/// One column of a side.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SidePart {
    kind: KeyKind,
    /// The type on this side, whose order `ORDER BY` follows.
    here: KeyKind,
    /// What to select, so that a key part comes.
    read: String,
    /// What stands for a value in a comparison; holds one `?`.
    place: String,
    /// Whether the values are in the same order as on the source.
    keeps_order: bool,
}

impl SidePart {
    fn new(kind: &KeyKind, read: String, place: impl Into<String>, keeps_order: bool) -> Self {
        Self {
            kind: kind.clone(),
            here: kind.clone(),
            read,
            place: place.into(),
            keeps_order,
        }
    }
}

impl KeySide {
    /// Describes a key of integers, for tests and tables known beforehand.
    #[must_use]
    pub fn of_integers(columns: &[Ident]) -> Self {
        let kind = KeyKind::Int { unsigned: false };
        let part = |column: &Ident| SidePart::new(&kind, column.to_string(), "?", true);
        Self {
            columns: columns.to_vec(),
            parts: columns.iter().map(part).collect(),
        }
    }

    /// Describes how keys of `kinds` stand in `columns`; `Err` is the first
    /// column whose type can't tell such keys apart.
    pub(crate) fn new<'c>(
        kinds: &[KeyKind],
        columns: impl IntoIterator<Item = &'c Column>,
    ) -> Result<Self, &'c Column> {
        let mut side = Self {
            columns: Vec::new(),
            parts: Vec::new(),
        };
        for (kind, column) in kinds.iter().zip(columns) {
            let mut part = side_part(kind, column).ok_or(column)?;
            part.here = KeyKind::of(column).ok_or(column)?;
            side.parts.push(part);
            side.columns.push(column.name.clone());
        }
        Ok(side)
    }

    /// Returns the columns, in key order.
    #[must_use]
    pub fn columns(&self) -> &[Ident] {
        &self.columns
    }

    /// Returns whether the keys are in the same order here as on the source:
    /// only then a range of the source's keys is one of this side's.
    #[must_use]
    pub fn keeps_order(&self) -> bool {
        self.parts.iter().all(|part| part.keeps_order)
    }

    /// Returns what to select to get keys, for [`KeySide::read`].
    #[must_use]
    pub fn select_list(&self) -> String {
        let reads: Vec<&str> = self.parts.iter().map(|part| part.read.as_str()).collect();
        reads.join(", ")
    }

    /// Returns this side's key order: the columns' names, with commas.
    #[must_use]
    pub fn order_by(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(Ident::to_string).collect();
        names.join(", ")
    }

    /// Returns the opposite of this side's key order.
    #[must_use]
    pub fn order_by_descending(&self) -> String {
        let names: Vec<String> = self
            .columns
            .iter()
            .map(|name| format!("{name} DESC"))
            .collect();
        names.join(", ")
    }

    /// Returns how many values [`KeySide::select_list`] selects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns whether there is no column, which no table's key has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Reads a key out of the values that the select list brought; `None` when
    /// there are others, or NULL among them.
    #[must_use]
    pub fn read(&self, values: &[Value]) -> Option<Key> {
        if values.len() != self.parts.len() {
            return None;
        }
        let parts = self.parts.iter().zip(values);
        let parts: Option<Vec<KeyPart>> = parts
            .map(|(part, value)| part.kind.part_read(value))
            .collect();
        parts.map(Key::new)
    }

    /// Returns the places for one key: `?`, or `(?, CAST(? AS BINARY))`.
    pub(crate) fn places(&self) -> String {
        let places: Vec<&str> = self.parts.iter().map(|part| part.place.as_str()).collect();
        match places.as_slice() {
            [only] => (*only).to_owned(),
            several => format!("({})", several.join(",")),
        }
    }

    /// Returns the condition for one key, with the same places: `(a = ? AND b = ?)`.
    pub(crate) fn equal_places(&self) -> String {
        let parts = self.columns.iter().zip(&self.parts);
        let parts: Vec<String> = parts
            .map(|(column, part)| format!("{column} = {}", part.place))
            .collect();
        format!("({})", parts.join(" AND "))
    }

    /// Returns whether a parameter is cast to DATE or DATETIME.
    pub(crate) fn casts_to_dates(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| part.place.contains(" AS DATE"))
    }

    /// Returns the parameters for one key's places.
    pub(crate) fn params<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = Value> + 'a {
        self.parts
            .iter()
            .zip(key.parts())
            .map(|(part, value)| part.param(value))
    }

    /// Returns the condition that column `at` compares as `operator` says to
    /// `value`, and appends its parameters.
    pub(crate) fn compare(
        &self,
        at: usize,
        operator: Compare,
        value: &KeyPart,
        params: &mut Vec<Value>,
    ) -> String {
        let (Some(column), Some(part)) = (self.columns.get(at), self.parts.get(at)) else {
            return "FALSE".to_owned();
        };
        let is_equal = operator == Compare::Equal;
        match (&part.here, &part.kind) {
            // An ENUM is ordered by its ordinals, and compared with a number it
            // is not read by its index; a list of members is. Observed with
            // EXPLAIN on 9.7.4.
            (KeyKind::Enum(members), KeyKind::Enum(_)) if !is_equal => {
                let bound = part.kind.member_text(value).unwrap_or_default();
                let texts = members_where(members, operator, &bound);
                if texts.is_empty() {
                    return "FALSE".to_owned();
                }
                let places = vec![part.place.as_str(); texts.len()];
                params.extend(texts.into_iter().map(Value::from));
                format!("{column} IN ({})", places.join(","))
            }
            // A text compared with an ENUM is compared as a text.
            (KeyKind::Enum(members), _) if !is_equal => {
                params.push(part.param(value));
                let ordinal = ordinal_of(&part.place, members);
                format!("{column}+0 {} {ordinal}", operator.sign())
            }
            // A SET is ordered by its bits, and as with an ENUM only texts are
            // found by its index. Observed with the counts of reads on 9.7.4.
            (KeyKind::Set(members), KeyKind::Set(_)) if !is_equal && can_list(members) => {
                let mut values = sets_where(members, operator, value).peekable();
                if values.peek().is_none() {
                    return "FALSE".to_owned();
                }
                let before = params.len();
                // By this side's own members: it may have more of them.
                let texts = values.filter_map(|value| part.here.member_text(&value));
                params.extend(texts.map(Value::from));
                let places = vec![part.place.as_str(); params.len() - before];
                format!("{column} IN ({})", places.join(","))
            }
            // Its index is then read from end to end.
            (KeyKind::Set(_), KeyKind::Set(_)) if !is_equal => {
                params.push(value.to_value());
                format!("{column} {} ?", operator.sign())
            }
            _ => {
                params.push(part.param(value));
                format!("{column} {} {}", operator.sign(), part.place)
            }
        }
    }
}

impl SidePart {
    /// Returns the parameter that stands for a value in an equality.
    fn param(&self, value: &KeyPart) -> Value {
        match (&self.here, value) {
            // As the number HHHMMSS.ffffff: some texts of times are taken for
            // a date and a time. Observed on 9.7.4: `'100:00:00'`.
            (KeyKind::Time { .. }, KeyPart::Literal(time)) => Value::from(time.replace(':', "")),
            _ => self
                .kind
                .member_text(value)
                .map_or_else(|| value.to_value(), Value::from),
        }
    }
}

/// How a column is compared to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    Above,
    FromOn,
    Below,
}

impl Compare {
    const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Above => ">",
            Self::FromOn => ">=",
            Self::Below => "<",
        }
    }
}

/// Returns the texts of the ENUM's values that compare so to the text `bound`.
///
/// Ordinal 0 is the empty text of a value that was none of the members.
fn members_where(members: &[String], operator: Compare, bound: &str) -> Vec<String> {
    let at = members.iter().position(|member| member == bound);
    let bound = at.map_or(0, |at| at + 1);
    let empty = String::new();
    // Where a member has the empty text, the text means the member.
    let zero = (!members.contains(&empty)).then_some((0, &empty));
    let members = (1..).zip(members);
    zero.into_iter()
        .chain(members)
        .filter(|(ordinal, _)| match operator {
            Compare::Equal => *ordinal == bound,
            Compare::Above => *ordinal > bound,
            Compare::FromOn => *ordinal >= bound,
            Compare::Below => *ordinal < bound,
        })
        .map(|(_, text)| text.clone())
        .collect()
}

/// The most members of a SET whose values are listed: 256 values.
const SET_MEMBERS_LISTED_MAX: usize = 8;

/// Returns whether a SET's values are few, and no two of them have one text.
fn can_list(members: &[String]) -> bool {
    members.len() <= SET_MEMBERS_LISTED_MAX && !members.contains(&String::new())
}

/// Returns the SET's values that compare so to `bound`, in their order.
fn sets_where<'b>(
    members: &[String],
    operator: Compare,
    bound: &'b KeyPart,
) -> impl Iterator<Item = KeyPart> + 'b {
    let all = 0..1_i128 << members.len();
    all.map(KeyPart::Int).filter(move |value| match operator {
        Compare::Equal => value == bound,
        Compare::Above => value > bound,
        Compare::FromOn => value >= bound,
        Compare::Below => value < bound,
    })
}

/// Returns how keys of `kind` stand in `column`; `None` where its values can't
/// tell them apart.
fn side_part(kind: &KeyKind, column: &Column) -> Option<SidePart> {
    let name = &column.name;
    let here = KeyKind::of(column)?;
    let part = |read: String, place: &str, keeps_order| {
        Some(SidePart::new(kind, read, place, keeps_order))
    };
    match (kind, &here) {
        (KeyKind::Int { .. }, KeyKind::Int { .. }) => {
            // ZEROFILL is for eyes only, and comes as a number.
            part(name.to_string(), "?", true)
        }
        (KeyKind::Int { unsigned }, KeyKind::Decimal { .. }) => {
            part(integer(name, *unsigned), "?", true)
        }
        (KeyKind::Int { unsigned }, KeyKind::Text { charset, collation }) => {
            let place = format!(
                "CONVERT(CAST(? AS CHAR) USING {}) COLLATE {}",
                word(charset),
                word(collation)
            );
            part(integer(name, *unsigned), &place, false)
        }
        (KeyKind::Bit, KeyKind::Bit | KeyKind::Int { .. }) => {
            part(format!("CAST({name} AS UNSIGNED)"), "?", true)
        }
        (KeyKind::Set(before), KeyKind::Set(after)) if after.starts_with(before) => {
            part(format!("CAST({name} AS UNSIGNED)"), "?", true)
        }
        (KeyKind::Enum(before), KeyKind::Enum(after)) if after.starts_with(before) => {
            part(format!("CAST({name} AS UNSIGNED)"), "?", true)
        }
        (KeyKind::Enum(before), KeyKind::Enum(_)) => part(field(name, before), "?", false),
        (KeyKind::Enum(before), KeyKind::Text { charset, collation }) => part(
            field(name, before),
            &text_place("utf8mb4", charset, collation),
            false,
        ),
        (KeyKind::Bytes { length }, KeyKind::Bytes { length: here }) => match (length, here) {
            (None, Some(_)) => None,
            (Some(before), Some(after)) if before < after => part(
                format!("LEFT({name}, {before})"),
                &format!("CAST(? AS BINARY({after}))"),
                true,
            ),
            _ => part(name.to_string(), "CAST(? AS BINARY)", true),
        },
        (KeyKind::Bytes { .. }, KeyKind::Text { charset, collation }) => part(
            format!("CAST({name} AS BINARY)"),
            &text_place(charset, charset, collation),
            false,
        ),
        (KeyKind::Decimal { digits, scale }, KeyKind::Decimal { .. } | KeyKind::Int { .. }) => {
            let decimal = format!("DECIMAL({digits},{scale})");
            part(
                format!("CAST(CAST({name} AS {decimal}) AS CHAR)"),
                &format!("CAST(? AS {decimal})"),
                true,
            )
        }
        _ => time_or_text(kind, &here, column),
    }
}

fn time_or_text(kind: &KeyKind, here: &KeyKind, column: &Column) -> Option<SidePart> {
    let name = &column.name;
    let part = |read: String, place: &str, keeps_order| {
        Some(SidePart::new(kind, read, place, keeps_order))
    };
    match (kind, here) {
        (KeyKind::Date, KeyKind::Date) => {
            part(format!("CAST({name} AS CHAR)"), "CAST(? AS DATE)", true)
        }
        (KeyKind::Date, KeyKind::DateTime { .. }) => part(
            format!("CAST(CAST({name} AS DATE) AS CHAR)"),
            "CAST(? AS DATETIME(6))",
            true,
        ),
        (KeyKind::DateTime { fraction: before }, KeyKind::DateTime { fraction: after }) => {
            let read = fractional(name, "DATETIME", (*before, *after));
            part(read, "CAST(? AS DATETIME(6))", true)
        }
        (KeyKind::Time { fraction: before }, KeyKind::Time { fraction: after }) => {
            let read = fractional(name, "TIME", (*before, *after));
            part(read, "CAST(CAST(? AS DECIMAL(13,6)) AS TIME(6))", true)
        }
        (
            KeyKind::Text { charset, collation },
            KeyKind::Text {
                charset: to,
                collation: into,
            },
        ) => {
            let read = if charset == to {
                format!("CAST({name} AS BINARY)")
            } else {
                format!("CAST(CONVERT({name} USING {}) AS BINARY)", word(charset))
            };
            part(read, &text_place(charset, to, into), collation == into)
        }
        // The server writes them as the source's keys are written here.
        (
            KeyKind::Decimal { .. }
            | KeyKind::Date
            | KeyKind::DateTime { .. }
            | KeyKind::Time { .. },
            KeyKind::Text { charset, collation },
        ) => part(
            format!("CAST(CONVERT({name} USING utf8mb4) AS BINARY)"),
            &text_place("utf8mb4", charset, collation),
            false,
        ),
        (KeyKind::Text { charset, .. }, KeyKind::Enum(_)) => part(
            format!("CAST(CONVERT({name} USING {}) AS BINARY)", word(charset)),
            &format!("CONVERT(CAST(? AS BINARY) USING {})", word(charset)),
            false,
        ),
        (KeyKind::Text { charset, .. }, KeyKind::Int { unsigned }) => {
            let charset = word(charset);
            let sign = if *unsigned { "UNSIGNED" } else { "SIGNED" };
            part(
                format!("CAST(CONVERT({name} USING {charset}) AS BINARY)"),
                &format!("CAST(CONVERT(CAST(? AS BINARY) USING {charset}) AS {sign})"),
                false,
            )
        }
        (KeyKind::Text { .. }, KeyKind::Bytes { length: None }) => {
            part(name.to_string(), "CAST(? AS BINARY)", false)
        }
        _ => None,
    }
}

/// The text of a time with the source's digits behind the seconds.
fn fractional(name: &Ident, data_type: &str, (before, after): (u32, u32)) -> String {
    if before == after {
        format!("CAST({name} AS CHAR)")
    } else {
        format!("CAST(CAST({name} AS {data_type}({before})) AS CHAR)")
    }
}

fn integer(name: &Ident, unsigned: bool) -> String {
    let sign = if unsigned { "UNSIGNED" } else { "SIGNED" };
    format!("CAST({name} AS {sign})")
}

/// The place of a text that comes as bytes of one character set, and is
/// compared in another one.
fn text_place(from: &str, charset: &str, collation: &str) -> String {
    let raw = format!("CONVERT(CAST(? AS BINARY) USING {})", word(from));
    let converted = if from == charset {
        raw
    } else {
        format!("CONVERT({raw} USING {})", word(charset))
    };
    // Without a collation of its own the expression's default one would clash
    // with the column's. Source: MySQL 9.7 manual, "Collation Coercibility in
    // Expressions".
    format!("{converted} COLLATE {}", word(collation))
}

/// The ordinal that a member's text has in the list `members`.
fn field(name: &Ident, members: &[String]) -> String {
    ordinal_of(&name.to_string(), members)
}

/// The ordinal that a text has in the list `members`, 0 for any other.
fn ordinal_of(text: &str, members: &[String]) -> String {
    let literals: Vec<String> = members.iter().map(|member| literal(member)).collect();
    format!(
        "FIELD(CONVERT({text} USING utf8mb4) COLLATE utf8mb4_bin, {})",
        literals.join(",")
    )
}

/// A text as a literal that no SQL mode reads otherwise.
fn literal(text: &str) -> String {
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 x'{digits}'")
}

/// A character set's or collation's name: letters, digits and `_`, wherever it
/// came from.
fn word(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn column(column_type: &str, charset: Option<&str>, collation: Option<&str>) -> Column {
        Column {
            charset: charset.map(str::to_owned),
            collation: collation.map(str::to_owned),
            ..fixture::column("c", column_type)
        }
    }

    fn plain(column_type: &str) -> Column {
        column(column_type, None, None)
    }

    fn side(from: &Column, to: &Column) -> Option<(String, String, bool)> {
        let kind = KeyKind::of(from).unwrap();
        let side = KeySide::new(&[kind], [to]).ok()?;
        Some((side.select_list(), side.places(), side.keeps_order()))
    }

    #[track_caller]
    fn check(from: &Column, to: &Column, read: &str, place: &str, keeps_order: bool) {
        let expected = (read.to_owned(), place.to_owned(), keeps_order);
        assert_eq!(side(from, to), Some(expected));
    }

    #[test]
    fn the_same_type_is_read_and_compared_plainly() {
        let same = |column: Column, read, place| check(&column, &column, read, place, true);
        same(plain("bigint unsigned"), "`c`", "?");
        same(plain("bit(64)"), "CAST(`c` AS UNSIGNED)", "?");
        same(plain("binary(16)"), "`c`", "CAST(? AS BINARY)");
        same(plain("date"), "CAST(`c` AS CHAR)", "CAST(? AS DATE)");
        same(
            plain("timestamp(3)"),
            "CAST(`c` AS CHAR)",
            "CAST(? AS DATETIME(6))",
        );
        same(plain("enum('a','b')"), "CAST(`c` AS UNSIGNED)", "?");
        same(
            column("varchar(20)", Some("latin1"), Some("latin1_bin")),
            "CAST(`c` AS BINARY)",
            "CONVERT(CAST(? AS BINARY) USING latin1) COLLATE latin1_bin",
        );
    }

    #[test]
    fn another_type_is_brought_to_the_sources_values_and_back() {
        check(&plain("int"), &plain("bigint"), "`c`", "?", true);
        check(
            &plain("int"),
            &plain("decimal(20,2)"),
            "CAST(`c` AS SIGNED)",
            "?",
            true,
        );
        check(
            &plain("binary(4)"),
            &plain("binary(6)"),
            "LEFT(`c`, 4)",
            "CAST(? AS BINARY(6))",
            true,
        );
        check(
            &plain("decimal(10,2)"),
            &plain("decimal(12,4)"),
            "CAST(CAST(`c` AS DECIMAL(10,2)) AS CHAR)",
            "CAST(? AS DECIMAL(10,2))",
            true,
        );
        check(
            &plain("time"),
            &plain("time(6)"),
            "CAST(CAST(`c` AS TIME(0)) AS CHAR)",
            "CAST(CAST(? AS DECIMAL(13,6)) AS TIME(6))",
            true,
        );
        check(
            &column("varchar(20)", Some("latin1"), Some("latin1_swedish_ci")),
            &column("varchar(20)", Some("utf8mb4"), Some("utf8mb4_bin")),
            "CAST(CONVERT(`c` USING latin1) AS BINARY)",
            "CONVERT(CONVERT(CAST(? AS BINARY) USING latin1) USING utf8mb4) COLLATE utf8mb4_bin",
            false,
        );
    }

    #[test]
    fn members_are_found_by_their_text_whatever_became_of_the_list() {
        let from = plain("enum('a','b')");
        check(
            &from,
            &plain("enum('a','b','c')"),
            "CAST(`c` AS UNSIGNED)",
            "?",
            true,
        );
        check(
            &from,
            &plain("enum('b','a')"),
            "FIELD(CONVERT(`c` USING utf8mb4) COLLATE utf8mb4_bin, _utf8mb4 x'61',_utf8mb4 x'62')",
            "?",
            false,
        );
        assert_eq!(side(&plain("set('a','b')"), &plain("set('b','a')")), None);
    }

    #[test]
    fn a_short_sets_values_are_listed_and_a_long_ones_compared() {
        let above = |column: Column, bound| {
            let kind = KeyKind::of(&column).unwrap();
            let side = KeySide::new(&[kind], [&column]).unwrap();
            let mut params = Vec::new();
            let sql = side.compare(0, Compare::Above, &KeyPart::Int(bound), &mut params);
            (sql, params)
        };
        let (sql, params) = above(plain("set('c','a','b')"), 4);
        assert_eq!(sql, "`c` IN (?,?,?)");
        assert_eq!(params, ["c,b", "a,b", "c,a,b"].map(Value::from));
        assert_eq!(above(plain("set('c','a')"), 3).0, "FALSE");
        assert_eq!(above(plain("set('','a')"), 1).0, "`c` > ?");
        let long = "set('a','b','c','d','e','f','g','h','i')";
        assert_eq!(
            above(plain(long), 4),
            ("`c` > ?".to_owned(), vec![Value::Int(4)])
        );
    }

    #[test]
    fn what_cannot_tell_keys_apart_is_refused() {
        assert_eq!(side(&plain("varbinary(4)"), &plain("binary(4)")), None);
        assert_eq!(side(&plain("datetime"), &plain("date")), None);
        assert_eq!(side(&plain("int"), &plain("double")), None);
    }

    #[test]
    fn keys_are_read_out_of_what_was_selected() {
        let text = column("char(2)", Some("utf8mb4"), Some("utf8mb4_bin"));
        let columns = [plain("int"), text, plain("date")];
        let kinds: Vec<KeyKind> = columns.iter().filter_map(KeyKind::of).collect();
        let side = KeySide::new(&kinds, &columns).unwrap();
        let values = [Value::Int(-3), Value::from("ab"), Value::from("2020-01-01")];
        let expected = [
            KeyPart::Int(-3),
            KeyPart::Text(b"ab"[..].into()),
            KeyPart::Literal("2020-01-01".into()),
        ];
        assert_eq!(side.read(&values), Some(Key::new(expected)));
        assert_eq!(side.read(&values[..2]), None);
        assert_eq!(side.read(&[Value::NULL, Value::NULL, Value::NULL]), None);
    }
}
