//! What a move takes from one server and puts on another.
//!
//! [`Selection::choose`] says which tables, and what they are called on the
//! target; [`Blueprint::draw`] what the target gets. Both are pure: what they
//! look at is read by [`read_found`], [`Part::read`] and [`TargetSide::read`],
//! and [`Blueprint::create`] acts.

mod blueprint;
mod body;
mod create;
mod definition;
mod difference;
mod finish;
mod found;
mod place;
mod problem;
mod selection;
mod target;

pub use blueprint::{Blueprint, DatabaseBlueprint, TableBlueprint, TargetTables};
pub use create::CreateError;
pub use difference::{differences, same_partitions};
pub use finish::{FinishError, Orphan, next_auto_increment, raise_auto_increment};
pub use found::{Database, Found, LeftBehind, Part, read_databases, read_found};
pub use place::{Place, PlaceError, Rename};
pub use problem::EstateProblem;
pub use selection::{Chosen, LeftOut, Selection, Sides, Wanted};
pub use target::{ExistingTable, TargetSide};

/// Stands behind the first words of each definition statement that a move
/// sends to the target: its binary log tells the move's own from others' by it.
pub const OWN_DDL_COMMENT: &str = "/* oxferry */";
