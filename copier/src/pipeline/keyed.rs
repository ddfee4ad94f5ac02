//! Row changes of the binary log as changes by key.

use oxferry_binlog::RowChange;
use oxferry_schema::{Row, RowKey, TableName};

use crate::{CopyError, KeyedChange};

impl KeyedChange {
    /// Splits a row's change into what it means for each key that it touches:
    /// one change, or two where an update changed the key, the old key first.
    ///
    /// # Errors
    ///
    /// [`CopyError::NoKey`] when an image has no usable value in a key column.
    pub fn split(
        change: RowChange,
        key: &RowKey,
        table: &TableName,
    ) -> Result<Vec<Self>, CopyError> {
        let of = |row: &Row| {
            key.key_of(row).ok_or_else(|| CopyError::NoKey {
                table: table.clone(),
                index: key.index.clone(),
            })
        };
        match (change.before, change.after) {
            (before, Some(after)) => {
                let new = of(&after)?;
                let old = before
                    .as_ref()
                    .map(of)
                    .transpose()?
                    .filter(|old| *old != new);
                let gone = old.map(|key| Self { key, image: None });
                Ok(gone
                    .into_iter()
                    .chain([Self {
                        key: new,
                        image: Some(after),
                    }])
                    .collect())
            }
            (Some(before), None) => Ok(vec![Self {
                key: of(&before)?,
                image: None,
            }]),
            (None, None) => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use oxferry_schema::{Ident, KeyKind, Value};

    use super::*;

    fn split(before: Option<[i64; 2]>, after: Option<[i64; 2]>) -> Vec<(String, bool)> {
        let row = |values: [i64; 2]| Row::new(values.map(Value::Int));
        let name = |text: &str| Ident::new(text).unwrap();
        let key = RowKey {
            index: name("PRIMARY"),
            columns: vec![name("id")],
            ordinals: vec![1],
            kinds: vec![KeyKind::Int { unsigned: false }],
        };
        let change = RowChange {
            before: before.map(row),
            after: after.map(row),
        };
        let table = TableName::new(name("d"), name("t"));
        let changes = KeyedChange::split(change, &key, &table).unwrap();
        changes
            .into_iter()
            .map(|c| (c.key.to_string(), c.image.is_some()))
            .collect()
    }

    #[test]
    fn an_update_of_the_key_frees_the_old_key_first() {
        assert_eq!(
            split(Some([0, 1]), Some([0, 2])),
            [("1".into(), false), ("2".into(), true)]
        );
    }

    #[test]
    fn other_changes_touch_one_key() {
        assert_eq!(split(None, Some([0, 1])), [("1".into(), true)]);
        assert_eq!(split(Some([0, 1]), Some([5, 1])), [("1".into(), true)]);
        assert_eq!(split(Some([0, 1]), None), [("1".into(), false)]);
    }

    #[test]
    fn a_key_without_a_value_is_an_error() {
        let name = |text: &str| Ident::new(text).unwrap();
        let key = RowKey {
            index: name("PRIMARY"),
            columns: vec![name("id")],
            ordinals: vec![0],
            kinds: vec![KeyKind::Int { unsigned: false }],
        };
        let change = RowChange {
            before: None,
            after: Some(Row::new([Value::NULL])),
        };
        let table = TableName::new(name("d"), name("t"));
        assert!(matches!(
            KeyedChange::split(change, &key, &table),
            Err(CopyError::NoKey { .. })
        ));
    }
}
