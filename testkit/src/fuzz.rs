//! Tables, rows, changes and writes drawn at random, as trials.
//!
//! [`draw`] is pure: a seed always draws the same [`Trial`]. It is judged by
//! the server's own change, as every trial is: what the server does with the
//! data the program must do as well, what it refuses the program must refuse.
//! [`may_refuse`] lists what the program may refuse though the server does it.

mod another;
mod change;
mod kind;
mod table;
mod value;
mod writes;

use fastrand::Rng;

use crate::trial::{Change, Expect, Script, Trial};

/// Errors of the server that a random writer may meet: duplicates, deadlocks,
/// lock waits, NULL for NOT NULL, columns of the table before or after the
/// change, values that the new table doesn't take.
const ACCEPTED: [u16; 12] = [
    1062, 1213, 1205, 1048, 1054, 1136, 1264, 1265, 1366, 1406, 1364, 1292,
];

/// What the program may refuse alone, by what its last line contains.
///
/// Everything else that it refuses and the server does is a failure.
const REFUSALS: [&str; 3] = [
    "whose values can't be told apart exactly",
    // The server itself keeps it until the next change only.
    "has a FLOAT default of more than six digits",
    // The server rounds, and cuts trailing spaces, without a word.
    "doesn't survive the change from",
];

/// Draws the trial of a seed.
#[must_use]
pub fn draw(seed: u64) -> Trial {
    // Neighbouring seeds shall have nothing in common.
    let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed);
    let table = table::draw(&mut rng);
    let (clauses, after) = change::draw(&table, &mut rng);
    let mut create = table.create();
    create.extend(table.rows(&mut rng));
    let mut trial = Trial::new(create, "");
    trial.change = Change::Clauses(clauses);
    trial.writers = (0..2)
        .map(|_| Script::new(writes::draw(&table, &mut rng)))
        .collect();
    trial.after = Some(Script::new(writes::draw(&after, &mut rng)));
    trial.accepted = ACCEPTED.to_vec();
    trial.seed = seed;
    trial.expect = Expect::AsServer;
    trial
}

/// Whether the program may refuse with this last line what the server does.
#[must_use]
pub fn may_refuse(line: &str) -> bool {
    REFUSALS.iter().any(|refusal| line.contains(refusal))
}

/// The statements of a trial, for a person to run.
#[must_use]
pub fn describe(trial: &Trial) -> String {
    let mut text = String::new();
    let mut part = |title: &str, statements: &[String]| {
        text.push_str(&format!("-- {title}\n"));
        for statement in statements {
            text.push_str(statement);
            text.push_str(";\n");
        }
    };
    part("create", &trial.create);
    match &trial.change {
        Change::Clauses(clauses) => part("alter", &[format!("ALTER TABLE t {clauses}")]),
        Change::Statements(statements) => part("alter", statements),
    }
    for script in &trial.writers {
        part("writer", script.statements());
    }
    if let Some(script) = &trial.after {
        part("writers after the swap", script.statements());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_draws_the_same() {
        assert_eq!(describe(&draw(7)), describe(&draw(7)));
        assert_ne!(describe(&draw(7)), describe(&draw(8)));
    }

    #[test]
    fn every_seed_draws_rows_writes_and_a_change() {
        for seed in 0..500 {
            let trial = draw(seed);
            assert!(trial.create.len() > 5, "seed {seed}");
            assert!(
                trial
                    .writers
                    .iter()
                    .all(|script| script.statements().len() > 5)
            );
            assert!(matches!(&trial.change, Change::Clauses(clauses) if !clauses.is_empty()));
        }
    }

    #[test]
    fn only_listed_refusals_are_accepted() {
        assert!(may_refuse(
            "ERROR the value of column c in the row with key 7 … doesn't survive the change from varchar(3) to char(3): …"
        ));
        assert!(!may_refuse("ERROR Data too long for column 'v' at row 1"));
    }
}
