//! Which rows of a table a job is about.

use oxferry_copier::{Access, Join, RowFilter};
use oxferry_schema::{Ident, KeySide, RowKey, TableName, Value};
use oxferry_verifier::SideFilter;

/// Which rows of a table are copied, streamed and compared.
#[derive(Clone, Debug, Default)]
pub(crate) enum Rows {
    /// All.
    #[default]
    All,
    /// Those of one tenant, by a column of the table.
    Own(Own),
    /// Those whose owner, in another table of the job, is the tenant's.
    Joined(Box<Owned>),
    /// The tenant's own row, which the target gets when it holds everything
    /// else, while the source is shut.
    Last(Own),
}

/// Rows with a tenant's value in a column.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) column: Ident,
    /// The column's place in the table.
    pub(crate) ordinal: usize,
    pub(crate) value: TenantValue,
    /// The index that the rows are read by, if there is one that begins with
    /// the column.
    pub(crate) index: Option<Ident>,
    /// The index to read by without it: the key's.
    pub(crate) key_index: Ident,
}

/// Rows that name an owner in another table.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    /// The table's column that names the owner.
    pub(crate) column: Ident,
    /// Where the owners stand among the job's tables.
    pub(crate) owner: usize,
    pub(crate) owner_source: TableName,
    pub(crate) owner_target: TableName,
    /// The owners' column that `column` refers to.
    pub(crate) owner_key: RowKey,
    /// How that stands in the table itself, in `column`.
    pub(crate) owner_side: KeySide,
    /// The owners' column of the tenant.
    pub(crate) owner_tenant: Ident,
    pub(crate) value: TenantValue,
    /// The index over `column`, if there is one.
    pub(crate) index: Option<Ident>,
}

/// What a tenant is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TenantValue {
    Int(i128),
    /// A text, compared as the column's collation says.
    Text {
        text: String,
        charset: String,
        collation: String,
    },
}

impl TenantValue {
    /// Returns it as a statement's parameter.
    pub(crate) fn param(&self) -> Value {
        match self {
            Self::Int(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                (Ok(number), _) => Value::Int(number),
                (_, Ok(number)) => Value::UInt(number),
                // No column holds it: the parser of the option refuses it.
                _ => Value::NULL,
            },
            Self::Text { text, .. } => Value::from(text.as_str()),
        }
    }
}

impl Rows {
    /// Returns the filter of a table's rows, `None` for all; `tables` are the
    /// table's names on both sides, `name_of` finds the source's tables by the
    /// names that they have now.
    pub(crate) fn filter(
        &self,
        (source, target): (&TableName, &TableName),
        name_of: &dyn Fn(&TableName) -> TableName,
    ) -> Option<RowFilter> {
        match self {
            Self::All => None,
            Self::Own(own) | Self::Last(own) => {
                let index = own.index.as_ref().unwrap_or(&own.key_index).clone();
                let columns = (&own.column, &own.column);
                let value = own.value.param();
                Some(RowFilter::equal(columns, &value, Access::Index(index)))
            }
            Self::Joined(owned) => {
                let join = |owner: TableName| Join {
                    column: owned.column.clone(),
                    owner,
                    owner_key: owner_column(&owned.owner_key),
                    owner_tenant: owned.owner_tenant.clone(),
                };
                let here = join(name_of(&owned.owner_source));
                let there = join(owned.owner_target.clone());
                let filter = RowFilter::joined(
                    (&name_of(source), &here),
                    (target, &there),
                    &owned.value.param(),
                    Access::Any,
                );
                Some(filter.with_owner(owned.owner_side.clone()))
            }
        }
    }

    /// Returns whether rows come when everything else is there.
    pub(crate) const fn are_last(&self) -> bool {
        matches!(self, Self::Last(_))
    }

    /// Returns what a row belongs to; where it is known of `None`, an image of
    /// the row says whose it is.
    pub(crate) const fn owned(&self) -> Option<&Owned> {
        match self {
            Self::Joined(owned) => Some(owned),
            Self::All | Self::Own(_) | Self::Last(_) => None,
        }
    }
}

/// The one column of an owner's key.
fn owner_column(key: &RowKey) -> Ident {
    key.columns.first().unwrap_or(&key.index).clone()
}

/// Returns which rows of the source, and of the target, are compared.
pub(crate) fn side_filters(filter: Option<&RowFilter>) -> (SideFilter, SideFilter) {
    let Some(filter) = filter else {
        return (SideFilter::default(), SideFilter::default());
    };
    let source = (filter.source_sql(), filter.source_params());
    (
        SideFilter {
            in_ranges: source.clone(),
            by_keys: source,
        },
        SideFilter {
            in_ranges: filter.target_range(),
            by_keys: (filter.target_sql(), filter.target_params()),
        },
    )
}

/// Compares nothing.
pub(crate) fn no_rows() -> SideFilter {
    let none = (" AND (FALSE)".to_owned(), Vec::new());
    SideFilter {
        in_ranges: none.clone(),
        by_keys: none,
    }
}
