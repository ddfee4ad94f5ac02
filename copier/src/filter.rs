//! Which rows of a table a job is about.

use oxferry_schema::{Ident, KeySide, TableName, Value};

/// Selects the rows of one tenant, on the source and on the target.
///
/// It is a condition for the `WHERE` clause of each side, with parameters: no
/// value stands in a statement's text.
#[derive(Clone, Debug, PartialEq)]
pub struct RowFilter {
    source: Condition,
    target: Condition,
    /// Selects the tenant's rows of the target once their owners are there.
    target_range: Condition,
    access: Access,
    /// Whether the target's condition holds for single rows alone, whose key
    /// is the tenant's anyway, and says nothing of a range.
    by_keys: bool,
    /// How the owner's key stands among the source's columns.
    owner: Option<KeySide>,
}

/// One side's condition.
#[derive(Clone, Debug, PartialEq)]
struct Condition {
    sql: String,
    params: Vec<Value>,
}

/// By which index the source's rows of a filter are read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the ways that a statement can say")]
pub enum Access {
    /// By this one: the table's key, or one that begins with the filter's
    /// column; InnoDB has the primary key behind it, so that the rows of one
    /// value come in key order.
    Index(Ident),
    /// By whichever the server thinks best.
    Any,
}

/// How rows of a table without the tenant's column find their owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the names that a join takes")]
pub struct Join {
    /// The table's column that names the owner.
    pub column: Ident,
    /// The owner's table, on this side.
    pub owner: TableName,
    /// The owner's column that `column` refers to.
    pub owner_key: Ident,
    /// The owner's column that holds the tenant.
    pub owner_tenant: Ident,
}

impl RowFilter {
    /// Selects the rows whose column is `value`: `source_column` on the source,
    /// `target_column` on the target.
    ///
    /// A text is compared in the column's own collation.
    #[must_use]
    pub fn equal(
        (source_column, target_column): (&Ident, &Ident),
        value: &Value,
        access: Access,
    ) -> Self {
        let condition = |column: &Ident| Condition {
            sql: format!("{column} = ?"),
            params: vec![value.clone()],
        };
        Self {
            source: condition(source_column),
            target: condition(target_column),
            target_range: condition(target_column),
            access,
            by_keys: false,
            owner: None,
        }
    }

    /// Selects the rows of `source` whose owner is of the tenant `value`.
    ///
    /// On the target an owner may be still to come, so what a row belongs to
    /// isn't known there: `target_join` only keeps rows safe that have an owner
    /// of another tenant. Rows are removed by the source's keys, and a plan
    /// with this filter is copied *ordered*, where no range needs emptying.
    #[must_use]
    pub fn joined(
        (source, source_join): (&TableName, &Join),
        (target, target_join): (&TableName, &Join),
        value: &Value,
        access: Access,
    ) -> Self {
        Self {
            source: Condition::joined(source, source_join, value),
            target: Condition::not_anothers(target, target_join, value),
            target_range: Condition::joined(target, target_join, value),
            access,
            by_keys: true,
            owner: None,
        }
    }

    /// Says how an owner's key stands in the source's rows that name it, so
    /// that they can be found by it.
    #[must_use]
    pub fn with_owner(mut self, side: KeySide) -> Self {
        self.owner = Some(side);
        self
    }

    /// Returns how an owner's key stands in the rows that name it.
    pub(crate) const fn owner(&self) -> Option<&KeySide> {
        self.owner.as_ref()
    }

    /// Returns whether rows of the target are known by their key alone.
    #[must_use]
    pub const fn is_by_keys(&self) -> bool {
        self.by_keys
    }

    /// Returns by which index the source's rows are read.
    #[must_use]
    pub const fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the source's condition, to stand behind another one: ` AND (…)`.
    #[must_use]
    pub fn source_sql(&self) -> String {
        self.source.appended()
    }

    /// Returns the parameters of [`RowFilter::source_sql`].
    #[must_use]
    pub fn source_params(&self) -> Vec<Value> {
        self.source.params.clone()
    }

    /// Returns the target's condition, to stand behind another one.
    #[must_use]
    pub fn target_sql(&self) -> String {
        self.target.appended()
    }

    /// Returns the parameters of [`RowFilter::target_sql`].
    #[must_use]
    pub fn target_params(&self) -> Vec<Value> {
        self.target.params.clone()
    }

    /// Returns the condition that selects the tenant's rows among a range of
    /// the target's, and its parameters, to stand behind another one. For rows
    /// that belong to an owner it is right as far as the owners are there.
    #[must_use]
    pub fn target_range(&self) -> (String, Vec<Value>) {
        let Condition { params, .. } = &self.target_range;
        (self.target_range.appended(), params.clone())
    }
}

impl Condition {
    fn joined(table: &TableName, join: &Join, value: &Value) -> Self {
        Self::owned("EXISTS", "=", (table, join, value))
    }

    fn not_anothers(table: &TableName, join: &Join, value: &Value) -> Self {
        Self::owned("NOT EXISTS", "<>", (table, join, value))
    }

    /// The table's column is written with its table: the owner may have one of
    /// the same name.
    fn owned(
        exists: &str,
        compare: &str,
        (table, join, value): (&TableName, &Join, &Value),
    ) -> Self {
        let Join {
            column,
            owner,
            owner_key,
            owner_tenant,
        } = join;
        Self {
            sql: format!(
                "{exists} (SELECT 1 FROM {owner} AS oxferry_owner \
                 WHERE oxferry_owner.{owner_key} = {table}.{column} \
                 AND oxferry_owner.{owner_tenant} {compare} ?)"
            ),
            params: vec![value.clone()],
        }
    }

    fn appended(&self) -> String {
        format!(" AND ({})", self.sql)
    }
}

impl Access {
    /// Returns what stands behind the table's name.
    pub(crate) fn sql(&self) -> String {
        match self {
            Self::Index(index) => format!(" FORCE INDEX ({index})"),
            Self::Any => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::ident;

    fn name(table: &str) -> TableName {
        TableName::new(ident("d"), ident(table))
    }

    #[test]
    fn a_column_is_compared_with_a_parameter() {
        let columns = (&ident("shop"), &ident("sh`op"));
        let filter = RowFilter::equal(columns, &Value::Int(7), Access::Index(ident("s")));
        assert_eq!(filter.source_sql(), " AND (`shop` = ?)");
        assert_eq!(filter.target_sql(), " AND (`sh``op` = ?)");
        assert_eq!(filter.source_params(), [Value::Int(7)]);
        assert_eq!(filter.access().sql(), " FORCE INDEX (`s`)");
    }

    #[test]
    fn an_owner_is_looked_up_by_its_key() {
        let join = Join {
            column: ident("order"),
            owner: name("orders"),
            owner_key: ident("id"),
            owner_tenant: ident("shop"),
        };
        let sides = ((&name("t"), &join), (&name("n"), &join));
        let filter = RowFilter::joined(sides.0, sides.1, &Value::from("x"), Access::Any);
        assert_eq!(
            filter.target_sql(),
            " AND (NOT EXISTS (SELECT 1 FROM `d`.`orders` AS oxferry_owner WHERE \
             oxferry_owner.`id` = `d`.`n`.`order` AND oxferry_owner.`shop` <> ?))"
        );
        assert_eq!(
            filter.source_sql(),
            " AND (EXISTS (SELECT 1 FROM `d`.`orders` AS oxferry_owner WHERE \
             oxferry_owner.`id` = `d`.`t`.`order` AND oxferry_owner.`shop` = ?))"
        );
        assert!(filter.is_by_keys());
        assert_eq!(filter.access().sql(), "");
    }
}
