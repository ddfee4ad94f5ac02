//! Conditions on a table's key, as SQL text with parameters.

use crate::{Key, KeyRange, KeySide, Value, key_side::Compare};

/// A condition for a `WHERE` clause, with the parameters that it takes.
///
/// The text depends only on which bounds there are and on the key's columns,
/// never on values: a statement that holds it is prepared once.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate {
    sql: String,
    params: Vec<Value>,
}

impl Predicate {
    /// Selects the rows of `range`, in a form that MySQL reads as one range of
    /// the index over `columns`.
    ///
    /// A comparison of row constructors, `(a, b) >= (?, ?)`, makes the server
    /// read the whole index; written out column after column it reads the
    /// range alone, in the index's order. Observed with `EXPLAIN` on 9.7.4, and
    /// held by the copier's test `a_composite_range_reads_only_its_own_rows`.
    /// Source: MySQL 9.7 manual, "Row Constructor Expression Optimization".
    ///
    /// # Panics
    ///
    /// When a bound has not one part for each column, or when `side` doesn't
    /// keep the source's order: the rows would be others than the range says.
    #[must_use]
    pub fn range(range: &KeyRange, side: &KeySide) -> Self {
        assert!(
            *range == KeyRange::ALL || side.keeps_order(),
            "a range means something only in the source's own order"
        );
        Self::range_in_its_order(range, side)
    }

    /// Selects the rows that stand in `range` in the order of `side` itself,
    /// which may be another one than the source's.
    ///
    /// # Panics
    ///
    /// When a bound has not one part for each column.
    #[must_use]
    pub fn range_in_its_order(range: &KeyRange, side: &KeySide) -> Self {
        let mut predicate = Self {
            sql: String::new(),
            params: Vec::new(),
        };
        if let Some(lower) = &range.lower {
            predicate.compare(lower, side, Compare::FromOn);
        }
        if let Some(upper) = &range.upper {
            if range.lower.is_some() {
                predicate.sql.push_str(" AND ");
            }
            predicate.compare(upper, side, Compare::Below);
        }
        if predicate.sql.is_empty() {
            predicate.sql.push_str("TRUE");
        }
        predicate
    }

    /// Selects the rows that have one of `keys`; no row for no keys.
    ///
    /// Unlike `<` and `>`, `IN` with row constructors is read by MySQL as that
    /// many places of the index. Source: MySQL 9.7 manual, "Range Optimization
    /// of Row Constructor Expressions".
    ///
    /// Not where a key of several columns has dates or times among them: a
    /// prepared `DELETE` from a partitioned table takes such a parameter in a row
    /// constructor for something else (1292, "Incorrect datetime value", with
    /// bytes of other memory; observed on 9.7.4). There it is `(a = ? AND b = ?)
    /// OR …`, which is read by the index as well.
    ///
    /// # Panics
    ///
    /// When a key has not one part for each column.
    #[must_use]
    pub fn keys<'a>(keys: impl IntoIterator<Item = &'a Key>, side: &KeySide) -> Self {
        let mut params = Vec::new();
        let mut count = 0;
        for key in keys {
            assert_eq!(key.parts().len(), side.len(), "a key fits its columns");
            params.extend(side.params(key));
            count += 1;
        }
        Self {
            sql: Self::keys_sql(count, side),
            params,
        }
    }

    /// Returns the text of [`Predicate::keys`] for `count` keys.
    #[must_use]
    pub fn keys_sql(count: usize, side: &KeySide) -> String {
        if count == 0 {
            return "FALSE".to_owned();
        }
        if side.len() > 1 && side.casts_to_dates() {
            let each = vec![side.equal_places(); count];
            return format!("({})", each.join(" OR "));
        }
        let left = match side.len() {
            1 => side.order_by(),
            _ => format!("({})", side.order_by()),
        };
        format!("{left} IN ({})", vec![side.places(); count].join(","))
    }

    /// Returns the parameters of [`Predicate::keys`].
    #[must_use]
    pub fn keys_params<'a>(keys: impl IntoIterator<Item = &'a Key>, side: &KeySide) -> Vec<Value> {
        keys.into_iter().flat_map(|key| side.params(key)).collect()
    }

    /// Returns the condition's text.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the parameters, in the order of their places.
    #[must_use]
    pub fn params(&self) -> &[Value] {
        &self.params
    }

    /// Gives up the parameters, in the order of their places.
    #[must_use]
    pub fn into_params(self) -> Vec<Value> {
        self.params
    }

    /// Appends `(a > ? OR (a = ? AND (b > ? OR (b = ? AND c >= ?))))`.
    fn compare(&mut self, bound: &Key, side: &KeySide, last_compare: Compare) {
        assert_eq!(bound.parts().len(), side.len(), "a bound fits its key");
        let last = side.len().saturating_sub(1);
        let strict = match last_compare {
            Compare::Below => Compare::Below,
            _ => Compare::Above,
        };
        let mut open = 0;
        for (at, value) in bound.parts().iter().enumerate() {
            if at == last {
                let condition = side.compare(at, last_compare, value, &mut self.params);
                self.sql.push_str(&condition);
            } else {
                let beyond = side.compare(at, strict, value, &mut self.params);
                let equal = side.compare(at, Compare::Equal, value, &mut self.params);
                self.sql.push_str(&format!("({beyond} OR ({equal} AND "));
                open += 2;
            }
        }
        self.sql.push_str(&")".repeat(open));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Ident, KeyPart};

    fn columns(names: &[&str]) -> KeySide {
        let names: Vec<Ident> = names.iter().map(|n| Ident::new(*n).unwrap()).collect();
        KeySide::of_integers(&names)
    }

    fn key(parts: &[i128]) -> Key {
        Key::new(parts.iter().copied().map(KeyPart::Int).collect::<Vec<_>>())
    }

    fn range(lower: Option<&[i128]>, upper: Option<&[i128]>) -> KeyRange {
        KeyRange {
            lower: lower.map(key),
            upper: upper.map(key),
        }
    }

    /// Evaluates the text of a predicate over `a`, `b` as a server would.
    fn holds(predicate: &Predicate, row: [i128; 2]) -> bool {
        let mut sql = predicate.sql().to_owned();
        for value in predicate.params() {
            let KeyPart::Int(v) = KeyPart::from_value(value).unwrap() else {
                unreachable!()
            };
            sql = sql.replacen('?', &v.to_string(), 1);
        }
        let tokens: Vec<String> = sql
            .replace('(', " ( ")
            .replace(')', " ) ")
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let (value, rest) = any_of(&tokens, row);
        assert!(rest.is_empty(), "{rest:?}");
        value
    }

    fn any_of(tokens: &[String], row: [i128; 2]) -> (bool, &[String]) {
        let (mut value, mut rest) = all_of(tokens, row);
        while rest.first().is_some_and(|t| t == "OR") {
            let (next, after) = all_of(&rest[1..], row);
            (value, rest) = (value || next, after);
        }
        (value, rest)
    }

    fn all_of(tokens: &[String], row: [i128; 2]) -> (bool, &[String]) {
        let (mut value, mut rest) = one(tokens, row);
        while rest.first().is_some_and(|t| t == "AND") {
            let (next, after) = one(&rest[1..], row);
            (value, rest) = (value && next, after);
        }
        (value, rest)
    }

    fn one(tokens: &[String], row: [i128; 2]) -> (bool, &[String]) {
        if tokens[0] == "TRUE" {
            return (true, &tokens[1..]);
        }
        if tokens[0] == "(" {
            let (value, rest) = any_of(&tokens[1..], row);
            assert_eq!(rest[0], ")");
            return (value, &rest[1..]);
        }
        let left = if tokens[0] == "`a`" { row[0] } else { row[1] };
        let right: i128 = tokens[2].parse().unwrap();
        let value = match tokens[1].as_str() {
            ">" => left > right,
            ">=" => left >= right,
            "<" => left < right,
            "=" => left == right,
            other => unreachable!("{other}"),
        };
        (value, &tokens[3..])
    }

    #[test]
    fn a_range_without_bounds_selects_everything() {
        let predicate = Predicate::range(&KeyRange::ALL, &columns(&["id"]));
        assert_eq!((predicate.sql(), predicate.params()), ("TRUE", &[][..]));
    }

    #[test]
    fn one_column_is_compared_plainly() {
        let predicate = Predicate::range(&range(Some(&[-3]), Some(&[7])), &columns(&["id"]));
        assert_eq!(predicate.sql(), "`id` >= ? AND `id` < ?");
        assert_eq!(predicate.params(), [Value::Int(-3), Value::Int(7)]);
    }

    #[test]
    fn several_columns_are_compared_one_after_the_other() {
        let predicate =
            Predicate::range(&range(Some(&[1, 2, 3]), None), &columns(&["a", "b", "c"]));
        assert_eq!(
            predicate.sql(),
            "(`a` > ? OR (`a` = ? AND (`b` > ? OR (`b` = ? AND `c` >= ?))))"
        );
        let ints: Vec<Value> = [1, 1, 2, 2, 3].map(Value::Int).into();
        assert_eq!(predicate.into_params(), ints);
    }

    #[test]
    fn keys_are_listed_in_order() {
        let keys = [key(&[1, 2]), key(&[3, 4])];
        let predicate = Predicate::keys(&keys, &columns(&["a", "b"]));
        assert_eq!(predicate.sql(), "(`a`, `b`) IN ((?,?),(?,?))");
        assert_eq!(predicate.params(), [1, 2, 3, 4].map(Value::Int));
        assert_eq!(Predicate::keys_sql(2, &columns(&["a"])), "`a` IN (?,?)");
        assert_eq!(Predicate::keys(&[], &columns(&["a"])).sql(), "FALSE");
    }

    proptest! {
        #[test]
        fn the_text_means_what_the_range_means(
            lower in proptest::option::of([-2i128..3, -2i128..3]),
            upper in proptest::option::of([-2i128..3, -2i128..3]),
            row in [-3i128..4, -3i128..4],
        ) {
            let range = range(lower.as_ref().map(|b| &b[..]), upper.as_ref().map(|b| &b[..]));
            let predicate = Predicate::range(&range, &columns(&["a", "b"]));
            prop_assert_eq!(holds(&predicate, row), range.contains(&key(&row)));
        }
    }
}
