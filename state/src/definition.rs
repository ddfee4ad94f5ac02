//! When two `SHOW CREATE TABLE` texts describe the same table.

/// Returns whether two `SHOW CREATE TABLE` texts describe the same table.
///
/// The next automatic value, `AUTO_INCREMENT=7` among the table's options,
/// moves with every insert and doesn't count. Everything else does.
#[must_use]
pub fn same_definition(one: &str, other: &str) -> bool {
    without_counter(one) == without_counter(other)
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
