//! What a writer of a trial runs, again and again.

use fastrand::Rng;

use super::sql;

/// The statements of one writer, run in order as one loop.
///
/// In each statement `{n}` stands for the loop's number, `{r}` for a random
/// number below 2^31; `{n:10}` and `{r:10}` are the same modulo 10. Without
/// `BEGIN` each statement is a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    statements: Vec<String>,
}

impl Script {
    /// Reads a file of SQL.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self {
            statements: sql::statements(text),
        }
    }

    /// These statements.
    #[must_use]
    pub fn new(statements: Vec<String>) -> Self {
        Self { statements }
    }

    /// The statements as they were written.
    #[must_use]
    pub fn statements(&self) -> &[String] {
        &self.statements
    }

    /// The statements of loop `number`, with what the placeholders stand for.
    pub(super) fn expanded(&self, number: u64, rng: &mut Rng) -> Vec<String> {
        let expand = |statement: &String| expand(statement, number, rng);
        self.statements.iter().map(expand).collect()
    }
}

fn expand(statement: &str, number: u64, rng: &mut Rng) -> String {
    let mut text = String::with_capacity(statement.len());
    let mut rest = statement;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        if let Some((value, length)) = placeholder(from, number, rng) {
            text.push_str(&value.to_string());
            rest = from.get(length..).unwrap_or_default();
        } else {
            text.push('{');
            rest = from.get(1..).unwrap_or_default();
        }
    }
    text.push_str(rest);
    text
}

/// What `{n}`, `{r}`, `{n:10}` or `{r:10}` stands for, and its length.
fn placeholder(text: &str, number: u64, rng: &mut Rng) -> Option<(u64, usize)> {
    let end = text.find('}')?;
    let inside = text.get(1..end)?;
    let (name, modulus) = match inside.split_once(':') {
        Some((name, modulus)) => (name, Some(modulus.parse::<u64>().ok().filter(|m| *m > 0)?)),
        None => (inside, None),
    };
    let value = match name {
        "n" => number,
        "r" => rng.u64(0..1 << 31),
        _ => return None,
    };
    Some((modulus.map_or(value, |modulus| value % modulus), end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_other_braces_kept() {
        let mut rng = Rng::with_seed(1);
        let script = Script::parse("INSERT INTO t VALUES ({n}, {n:10}, '{\"a\": {}}');");
        assert_eq!(
            script.expanded(23, &mut rng),
            ["INSERT INTO t VALUES (23, 3, '{\"a\": {}}')"]
        );
    }

    #[test]
    fn random_numbers_follow_the_seed() {
        let script = Script::parse("{r} {r:7}");
        let run = |seed| script.expanded(0, &mut Rng::with_seed(seed));
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
    }
}
