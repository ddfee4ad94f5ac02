//! Defaults that the server itself doesn't keep.

use mysql_async::prelude::Queryable;

use super::{ProbeError, scratch::Scratch};
use crate::{Column, Mapping, Table};

impl Scratch<'_> {
    /// Refuses an added column whose default is another one once the table is
    /// changed again, as a shadow table is for its indexes.
    ///
    /// The server writes a FLOAT's default down with six digits: 16777217 gives
    /// 16777216 at first, and 16777200 after any further `ALTER TABLE`. Observed
    /// on 9.7.4; a DOUBLE's is kept whole.
    pub(super) async fn refuse_unstable_default(
        &mut self,
        table: &Table,
        mapping: &Mapping,
    ) -> Result<(), ProbeError> {
        let added = mapping.added.iter().filter_map(|at| table.columns.get(*at));
        let floats: Vec<&Column> = added.filter(|c| c.data_type == "float").collect();
        if floats.is_empty() || !self.make_changed_row().await? {
            return Ok(());
        }
        for column in floats {
            if let Some(written) = self.rounded_default(column).await? {
                return Err(ProbeError::UnstableDefault {
                    table: self.source.name.plain(),
                    column: column.name.as_str().to_owned(),
                    written,
                });
            }
        }
        Ok(())
    }

    /// Returns what the server has written down, if it isn't what the changed
    /// row got.
    async fn rounded_default(&mut self, column: &Column) -> Result<Option<String>, ProbeError> {
        // A FLOAT itself is printed with six digits.
        let filled = format!("SELECT {} + 0e0 FROM {}", column.name, self.name);
        let filled: Option<Option<f64>> = self
            .conn
            .query_first(filled)
            .await
            .map_err(|e| self.failed("read", e))?;
        let written: Option<Option<String>> = self
            .conn
            .exec_first(
                "SELECT COLUMN_DEFAULT FROM information_schema.COLUMNS \
                 WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND COLUMN_NAME = ? \
                 AND EXTRA NOT LIKE '%DEFAULT_GENERATED%'",
                (
                    self.name.schema.as_str(),
                    self.name.table.as_str(),
                    column.name.as_str(),
                ),
            )
            .await
            .map_err(|e| self.failed("read the defaults of", e))?;
        // NULL, or an expression, which is evaluated for each row.
        let Some(written) = written.flatten() else {
            return Ok(None);
        };
        let kept = written.parse::<f32>().ok().map(f64::from);
        Ok((filled.flatten() != kept).then_some(written))
    }
}
