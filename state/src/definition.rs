//! When two `SHOW CREATE TABLE` texts describe the same table.

/// Returns whether two `SHOW CREATE TABLE` texts describe the same table.
///
/// The next automatic value, `AUTO_INCREMENT=7` among the table's options,
/// moves with every insert and doesn't count. Everything else does.
#[must_use]
pub fn same_definition(one: &str, other: &str) -> bool {
    without_counter(one) == without_counter(other)
}

/// Returns in what a table is not what it was, given both `SHOW CREATE TABLE`
/// texts: one line of the later text that is new, or of the former that is gone.
///
/// The next automatic value doesn't count, nor does the order of indexes and
/// checks, which changes when some are built anew; foreign keys don't either: a
/// job puts them on, and takes them off, itself.
pub(crate) fn difference(before: &str, now: &str) -> Option<String> {
    let (before, now) = (without_counter(before), without_counter(now));
    let (was, is) = (Lines::of(&before), Lines::of(&now));
    if was == is {
        return None;
    }
    let lacking = |of: &Lines<'_>, other: &Lines<'_>| {
        let line = of.all().find(|line| !other.all().any(|own| own == *line));
        line.map(|line| line.trim().to_owned())
    };
    let change = match (lacking(&is, &was), lacking(&was, &is)) {
        (Some(new), Some(gone)) => format!("{new} is new, {gone} is gone"),
        (Some(new), None) => format!("{new} is new"),
        (None, Some(gone)) => format!("{gone} is gone"),
        (None, None) => "its columns stand in another order".to_owned(),
    };
    Some(change)
}

/// The lines of a `SHOW CREATE TABLE` text, without foreign keys.
#[derive(PartialEq)]
struct Lines<'a> {
    columns: Vec<&'a str>,
    /// Indexes, checks and options, sorted.
    rest: Vec<&'a str>,
}

impl<'a> Lines<'a> {
    fn of(create: &'a str) -> Self {
        let lines = create.lines().map(|line| line.trim_end_matches(','));
        let lines = lines.filter(|line| !is_foreign_key(line));
        let (columns, mut rest): (Vec<_>, Vec<_>) = lines.partition(|l| l.starts_with("  `"));
        rest.sort_unstable();
        Self { columns, rest }
    }

    fn all(&self) -> impl Iterator<Item = &'a str> {
        self.columns.iter().chain(&self.rest).copied()
    }
}

fn is_foreign_key(line: &str) -> bool {
    line.starts_with("  CONSTRAINT `") && line.contains("` FOREIGN KEY (`")
}

/// Returns the text with the counter's option cut out.
///
/// The options follow the last line that begins with `)`; a comment can hold
/// anything, but it comes after the counter, and its line breaks are printed
/// as `\n`, so the first match on that line is the option. Source: MySQL 9.7,
/// `store_create_info` in `sql/sql_show.cc`.
fn without_counter(create: &str) -> String {
    let options = create.rfind("\n) ").unwrap_or(0);
    let (columns, options) = create.split_at(options);
    let comment = options.find(" COMMENT='").unwrap_or(options.len());
    match options.split_once(COUNTER) {
        Some((before, counter)) if before.len() < comment => {
            let behind = counter.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{columns}{before}{behind}")
        }
        _ => create.to_owned(),
    }
}

const COUNTER: &str = " AUTO_INCREMENT=";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_automatic_value_does_not_count() {
        let with = |option: &str| {
            format!(
                "CREATE TABLE `t` (\n  `id` int\n) ENGINE=InnoDB{option} DEFAULT CHARSET=utf8mb4"
            )
        };
        assert!(same_definition(&with(" AUTO_INCREMENT=7"), &with("")));
        assert!(same_definition(
            &with(" AUTO_INCREMENT=7"),
            &with(" AUTO_INCREMENT=12345")
        ));
    }

    const BEFORE: &str = "CREATE TABLE `t` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  `a` int,\n  \
        PRIMARY KEY (`id`),\n  KEY `a` (`a`),\n  KEY `b` (`a`,`id`)\n) ENGINE=InnoDB";

    #[test]
    fn an_order_of_indexes_and_a_foreign_key_make_no_difference() {
        let now = "CREATE TABLE `t` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  `a` int,\n  \
            PRIMARY KEY (`id`),\n  KEY `b` (`a`,`id`),\n  KEY `a` (`a`),\n  \
            CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`id`)\n) ENGINE=InnoDB AUTO_INCREMENT=7";
        assert_eq!(difference(BEFORE, now), None);
    }

    #[test]
    fn a_difference_is_named() {
        let told = |from: &str, to: &str| {
            assert!(BEFORE.contains(from), "{from}");
            difference(BEFORE, &BEFORE.replace(from, to)).unwrap_or_default()
        };
        assert_eq!(told(",\n  KEY `a` (`a`)", ""), "KEY `a` (`a`) is gone");
        assert_eq!(told("`a` int,", "`a` int,\n  `c` int,"), "`c` int is new");
        assert_eq!(
            told("`a` int,", "`a` bigint,"),
            "`a` bigint is new, `a` int is gone"
        );
        assert_eq!(
            told("ENGINE=InnoDB", "ENGINE=InnoDB COMMENT='x'"),
            ") ENGINE=InnoDB COMMENT='x' is new, ) ENGINE=InnoDB is gone"
        );
        let swapped = "`a` int,\n  `id` int NOT NULL AUTO_INCREMENT,";
        assert_eq!(
            told("`id` int NOT NULL AUTO_INCREMENT,\n  `a` int,", swapped),
            "its columns stand in another order"
        );
    }

    #[test]
    fn a_column_counts() {
        let with = |column: &str| {
            format!("CREATE TABLE `t` (\n  {column}\n) ENGINE=InnoDB AUTO_INCREMENT=7")
        };
        assert!(!same_definition(&with("`id` int"), &with("`id` bigint")));
    }

    #[test]
    fn a_comment_counts_whatever_it_says() {
        let with = |comment: &str| {
            format!("CREATE TABLE `t` (\n  `id` int\n) ENGINE=InnoDB COMMENT='{comment}'")
        };
        assert!(!same_definition(
            &with("x AUTO_INCREMENT=7"),
            &with("x AUTO_INCREMENT=8")
        ));
        assert!(!same_definition(&with("a"), &with("b")));
    }
}
