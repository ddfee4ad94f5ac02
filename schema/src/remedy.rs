//! What to do about an error, whatever it was.

/// What to do about an error.
///
/// Every operation's error answers `remedy()`; exit codes, retries and hints
/// to the operator read only that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a new remedy must reach every place that acts on one"
)]
pub enum Remedy {
    /// The call was wrong: correct it.
    Usage,
    /// The table's data forbid the change: mend the data, or the change.
    Data,
    /// A server can't be reached: bring it back, then call again.
    Unreachable,
    /// The program broke its own rules: report it.
    Bug,
    /// The checkpoint can't be read or stored.
    State,
    /// The same call may succeed later; the checkpoint is kept.
    Retry,
    /// Nobody knows which table is live: look before anything else.
    Ambiguous,
    /// A privilege or a server setting is missing.
    Privileges,
    /// The operator stopped it; the checkpoint is kept.
    Interrupted,
}
