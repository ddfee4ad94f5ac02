//! What an earlier run has begun to copy, and what it had changed at once
//! before that.

use mysql_async::Conn;
use oxferry_schema::{Alter, ShadowNames, TableName};
use oxferry_state::Checkpoint;

use super::Decided;
use crate::{
    args::MigrateArgs,
    failure::Failure,
    job::{Store, table_exists},
};

impl Decided {
    /// Looks for a job that an earlier run has begun to copy; returns whether
    /// there is one. Then no table is changed at once any more, and those that
    /// the earlier run changed are left out.
    pub(super) async fn look_back(
        &mut self,
        args: &MigrateArgs,
        conn: &mut Conn,
        names: &[TableName],
    ) -> Result<bool, Failure> {
        let mut found = None;
        for name in names {
            let beside = ShadowNames::beside(name);
            if table_exists(conn, &beside.state).await? {
                found = Some((name, beside.state));
                break;
            }
            if table_exists(conn, &beside.shadow).await? {
                return Ok(true);
            }
        }
        let Some((name, state)) = found else {
            return Ok(false);
        };
        tracing::info!(
            table = %name.plain(),
            "an earlier run has begun to copy: no table is changed at once"
        );
        let opts = self.url.opts("checkpoint");
        let store = Store::new(args.run.state.as_ref(), opts, &state, &name.plain());
        // One that can't be read is told of, or dropped, by whoever resumes it.
        if let Ok(Some(checkpoint)) = store.load().await {
            self.leave_out(&checkpoint, names);
        }
        Ok(true)
    }

    /// Leaves out what was changed before the copy began: the checkpoint is of
    /// the same statements, but of fewer tables.
    fn leave_out(&mut self, checkpoint: &Checkpoint, names: &[TableName]) {
        let statements = self.copies.iter().zip(names);
        let asked = statements.map(|((_, request), name)| request.alter.statement_for(name));
        let asked: Vec<String> = asked.collect();
        if !same(&asked, &checkpoint.job.statements) {
            return;
        }
        let copied = |place: &usize| {
            let name = names.get(*place);
            name.is_some_and(|name| checkpoint.job.tables.contains(name))
        };
        self.copies.retain(|(place, _)| copied(place));
        let done = asked.iter().enumerate().filter(|(place, _)| !copied(place));
        self.done = done.map(|(_, statement)| statement.clone()).collect();
        for statement in &self.done {
            tracing::info!(statement, "was changed at once by an earlier run");
        }
    }
}

/// Whether both are the same statements, in whatever order.
fn same(asked: &[String], held: &[String]) -> bool {
    let sorted = |statements: &[String]| {
        let read = statements.iter().map(|statement| {
            Alter::parse(statement)
                .map(|alter| (alter.table(None), alter.fingerprint().to_owned()))
                .ok()
        });
        let mut read: Option<Vec<_>> = read.collect();
        if let Some(read) = &mut read {
            read.sort();
        }
        read
    };
    let (asked, held) = (sorted(asked), sorted(held));
    asked.is_some() && asked == held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_and_the_words_of_statements_do_not_count() {
        let list = |statements: &[&str]| -> Vec<String> {
            statements.iter().map(|s| (*s).to_owned()).collect()
        };
        let held = list(&["ALTER TABLE `d`.`a` add x int", "ALTER TABLE `d`.`b` FORCE"]);
        assert!(same(
            &list(&["ALTER TABLE d.b FORCE", "ALTER TABLE d.a ADD x int"]),
            &held
        ));
        assert!(!same(&list(&["ALTER TABLE d.a ADD x int"]), &held));
        assert!(!same(
            &list(&["ALTER TABLE d.c FORCE", "ALTER TABLE d.a ADD x int"]),
            &held
        ));
    }
}
