//! What a table's definition tells about a statement whose answer was lost.

use oxferry_cutover::DdlSeen;
use oxferry_schema::{Alter, Ident};
use oxferry_state::same_definition;

use super::Native;

/// Says what became of the statement, by what the table is `now`.
pub(super) fn became(native: &Native, now: &str) -> DdlSeen {
    let before = &native.before.create_statement;
    decide(before, &native.after, now, native.alter())
}

/// The altered scratch copy is called otherwise, has no foreign keys, and its
/// checks have names of their own; everything else must be the same.
fn decide(before: &str, after: &str, now: &str, alter: &Alter) -> DdlSeen {
    if same_definition(before, now) {
        return DdlSeen::NotDone;
    }
    let keys_left = |text: &str| -> Vec<String> {
        let keys = text.lines().filter(|line| is_foreign_key(line));
        let left = keys.filter(|line| {
            let name = constraint_name(line).and_then(|name| Ident::new(name).ok());
            !name.is_some_and(|name| alter.drops_foreign_key(&name))
        });
        left.map(|line| line.trim_end_matches(',').to_owned())
            .collect()
    };
    let all_keys = now.lines().filter(|line| is_foreign_key(line)).count();
    let keys_fit = keys_left(before) == keys_left(now) && keys_left(now).len() == all_keys;
    if keys_fit && same_definition(&bare(after), &bare(now)) {
        DdlSeen::Done
    } else {
        DdlSeen::Neither
    }
}

/// The definition without the table's name, its foreign keys, and the names of
/// its checks, which come in the order of those names.
fn bare(create: &str) -> String {
    let (checks, lines): (Vec<&str>, Vec<&str>) = create
        .lines()
        .skip(1)
        .filter(|line| !is_foreign_key(line))
        .partition(|line| is_check(line));
    let mut rules: Vec<&str> = checks
        .iter()
        .filter_map(|line| line.split_once("` CHECK ("))
        .map(|(_, rule)| rule.trim_end_matches(','))
        .collect();
    rules.sort_unstable();
    let lines = lines.iter().map(|line| line.trim_end_matches(','));
    format!(
        "{}\n{}",
        rules.join("\n"),
        lines.collect::<Vec<_>>().join("\n")
    )
}

fn is_check(line: &str) -> bool {
    line.starts_with("  CONSTRAINT `") && line.contains("` CHECK (")
}

fn is_foreign_key(line: &str) -> bool {
    line.starts_with("  CONSTRAINT `") && line.contains("` FOREIGN KEY (")
}

fn constraint_name(line: &str) -> Option<String> {
    let rest = line.strip_prefix("  CONSTRAINT `")?;
    let (name, _) = rest.split_once("` FOREIGN KEY (")?;
    Some(name.replace("``", "`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(name: &str, lines: &[&str], options: &str) -> String {
        format!(
            "CREATE TABLE `{name}` (\n{}\n) ENGINE=InnoDB{options}",
            lines.join(",\n")
        )
    }

    fn alter(clauses: &str) -> Alter {
        Alter::clauses(clauses).unwrap()
    }

    #[test]
    fn a_column_that_is_there_was_added() {
        let check = "  CONSTRAINT `t_chk_1` CHECK ((`a` > 0))";
        let copied = "  CONSTRAINT `_t_oxprobe_chk_1` CHECK ((`a` > 0))";
        let before = create("t", &["  `a` int", check], " AUTO_INCREMENT=7");
        let after = create("_t_oxprobe", &["  `a` int", "  `b` int", copied], "");
        let done = create("t", &["  `a` int", "  `b` int", check], " AUTO_INCREMENT=9");
        let other = create("t", &["  `a` int", "  `c` int", check], "");
        let alter = alter("ADD b INT");
        assert_eq!(decide(&before, &after, &before, &alter), DdlSeen::NotDone);
        assert_eq!(decide(&before, &after, &done, &alter), DdlSeen::Done);
        assert_eq!(decide(&before, &after, &other, &alter), DdlSeen::Neither);
        assert_eq!(decide(&before, &after, "", &alter), DdlSeen::Neither);
    }

    #[test]
    fn a_foreign_key_that_is_gone_was_dropped() {
        let key = |name| format!("  CONSTRAINT `{name}` FOREIGN KEY (`a`) REFERENCES `p` (`id`)");
        let (f, g) = (key("f"), key("g"));
        let before = create("t", &["  `a` int", &f, &g], "");
        let after = create("_t_oxprobe", &["  `a` int"], "");
        let alter = alter("DROP FOREIGN KEY F");
        for (lines, expected) in [
            (vec!["  `a` int", &f, &g], DdlSeen::NotDone),
            (vec!["  `a` int", &g], DdlSeen::Done),
            (vec!["  `a` int", &f], DdlSeen::Neither),
            (vec!["  `a` int"], DdlSeen::Neither),
        ] {
            assert_eq!(
                decide(&before, &after, &create("t", &lines, ""), &alter),
                expected
            );
        }
    }
}
