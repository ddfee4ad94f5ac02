//! One chunk's transaction on the target, and its read on the source.

use std::time::Duration;

use futures::FutureExt;
use mysql_async::{Error as DriverError, prelude::Queryable};
use oxferry_schema::{Key, KeyRange, Predicate, Row, TableName, server_code};
use tokio::sync::mpsc;

use super::{
    TransferSink, documents,
    load::{LoadStatement, Loading, Outcome},
    read::{Outlet, Read},
};
use crate::{
    CopiedRows, WorkLimits,
    connections::{PairUnit, Session, Side, SideError},
    error::Task,
    sink::{
        decide::{Before, Decision, KeysDecision, Write},
        writer::APPLY_BYTES_MAX,
    },
};

/// What is transferred.
#[derive(Clone, Copy)]
pub(super) enum What<'a> {
    /// The rows of a range; with `true` again.
    Range(&'a KeyRange, bool),
    /// The rows of some keys, again.
    Keys(&'a [Key]),
}

/// One transaction on the target.
pub(super) struct TransferUnit<'a> {
    pub(super) sink: &'a TransferSink,
    pub(super) what: What<'a>,
}

/// How the rows are written, and which ones are removed before.
struct Course {
    rows: Vec<Predicate>,
    before: Before,
    how: Write,
    reads_keys: bool,
    /// Whether loading may be tried.
    loads: bool,
}

/// The two sessions.
type Sessions<'a> = (&'a mut Session, &'a mut Session);

impl TransferUnit<'_> {
    fn course(&self, unsure: bool) -> Course {
        let writer = &self.sink.writer;
        match self.what {
            What::Range(range, again) => {
                let decision = Decision::of_range(&writer.plan, writer.meeting(), (again, unsure));
                Course {
                    rows: vec![Predicate::range(range, writer.plan.source_side())],
                    before: decision.before,
                    how: decision.how,
                    reads_keys: decision.before == Before::KeysRemoved,
                    loads: true,
                }
            }
            What::Keys(keys) => {
                let decision = KeysDecision::of(&writer.plan, writer.meeting());
                Course {
                    rows: writer.rows_of(keys),
                    before: Before::KeysRemoved,
                    how: decision.how,
                    reads_keys: decision.reads_keys,
                    loads: false,
                }
            }
        }
    }

    /// Returns how rows are written when nothing has to be removed, and whether
    /// that is so.
    pub(super) fn is_fresh(&self) -> bool {
        let course = self.course(false);
        course.before == Before::Nothing && course.how == Write::Insert
    }

    /// Does it once, but for the target's commit.
    async fn write(
        &self,
        (source, target): Sessions<'_>,
        course: &Course,
    ) -> Result<CopiedRows, SideError> {
        self.begin_read(source).await.map_err(SideError::source)?;
        let gone = self.gone(source, course).await.map_err(SideError::source)?;
        let clear = self.clear(target, (course, &gone));
        clear.await.map_err(SideError::target)?;
        let mut copied = CopiedRows::default();
        for rows in &course.rows {
            copied.rows += self
                .transfer((&mut *source, &mut *target), rows, course)
                .await?;
        }
        self.end_read(source).await.map_err(SideError::source)?;
        Ok(copied)
    }

    /// Rows that are read in more than one statement, because some documents
    /// need a second look, are read of one moment. Nothing is locked.
    async fn begin_read(&self, source: &mut Session) -> Result<(), DriverError> {
        if !self.sink.reader.has_documents() {
            return Ok(());
        }
        let begin = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION READ ONLY";
        source.conn.query_drop(begin).await
    }

    async fn end_read(&self, source: &mut Session) -> Result<(), DriverError> {
        if !self.sink.reader.has_documents() {
            return Ok(());
        }
        source.conn.query_drop("COMMIT").await
    }

    /// Returns the keys whose rows are removed.
    async fn gone(&self, source: &mut Session, course: &Course) -> Result<Vec<Key>, DriverError> {
        let mut keys = match self.what {
            What::Range(..) => Vec::new(),
            What::Keys(keys) => keys.to_vec(),
        };
        if course.reads_keys {
            for rows in &course.rows {
                keys.extend(self.sink.writer.keys_of(&mut source.conn, rows).await?);
            }
        }
        Ok(keys)
    }

    /// Begins the target's transaction, and removes what has to be removed.
    async fn clear(
        &self,
        target: &mut Session,
        (course, gone): (&Course, &[Key]),
    ) -> Result<(), DriverError> {
        let writer = &self.sink.writer;
        writer.begin(target).await?;
        match (course.before, self.what) {
            (Before::Nothing, _) => Ok(()),
            (Before::Emptied, What::Range(range, _)) => {
                let range = Predicate::range(range, writer.plan.target_side());
                let sql = writer.statements.empty(&range);
                target
                    .conn
                    .exec_drop(sql, writer.target_params(range))
                    .await
            }
            (Before::Emptied | Before::KeysRemoved, _) => {
                writer.remove(&mut target.conn, gone, APPLY_BYTES_MAX).await
            }
        }
    }

    /// Reads and writes rows; returns how many there were.
    async fn transfer(
        &self,
        (source, target): Sessions<'_>,
        rows: &Predicate,
        course: &Course,
    ) -> Result<u64, SideError> {
        let how = course.how;
        // Others' rows must not be replaced: see `Writer::write_rows`.
        let keeps = self.sink.writer.plan.filter().is_some() && how == Write::Replace;
        let load = self.sink.load().filter(|_| course.loads && !keeps);
        let (mut count, special) = match load {
            Some(load) => {
                self.by_load((&mut *source, &mut *target), rows, (load, how))
                    .await?
            }
            None => {
                self.by_statements((&mut *source, &mut *target), rows, how)
                    .await?
            }
        };
        for keys in special.chunks(SPECIAL_ROWS) {
            let found = documents::rows(
                &self.sink.reader,
                &self.sink.writer.plan,
                (&mut source.conn, keys),
            );
            let found = found.await.map_err(SideError::source)?;
            count += u64::try_from(found.len()).unwrap_or_default();
            self.put(target, &found, how)
                .await
                .map_err(SideError::target)?;
        }
        Ok(count)
    }

    async fn by_load(
        &self,
        (source, target): Sessions<'_>,
        rows: &Predicate,
        (load, how): (&LoadStatement, Write),
    ) -> Result<(u64, Vec<Key>), SideError> {
        let loading = Loading {
            reader: &self.sink.reader,
            load,
            how,
        };
        match loading.run((source, target), rows).await? {
            Outcome::Loaded(count, special) => {
                self.sink.loaded();
                Ok((count, special))
            }
            Outcome::Not { said, is_refused } => {
                self.sink.not_loaded(&said, is_refused);
                Err(SideError::target(DriverError::Other(Box::new(NotLoaded))))
            }
        }
    }

    /// Reading and writing go on at the same time.
    async fn by_statements(
        &self,
        (source, target): Sessions<'_>,
        rows: &Predicate,
        how: Write,
    ) -> Result<(u64, Vec<Key>), SideError> {
        let (sender, mut receiver) = mpsc::channel::<Vec<Row>>(1);
        let read = async {
            let mut outlet = Rows::new(self.sink, sender);
            let reader = &self.sink.reader;
            reader
                .read(&mut source.conn, (rows.clone(), None), &mut outlet)
                .await?;
            outlet.send().await;
            Ok::<_, DriverError>((outlet.count, outlet.special))
        };
        let write = async move {
            while let Some(rows) = receiver.recv().await {
                self.put(target, &rows, how).await?;
            }
            Ok::<_, DriverError>(())
        };
        let (read, written) = futures::join!(read.boxed(), write.boxed());
        // A failed write ends the read too, which says nothing of that.
        written.map_err(SideError::target)?;
        read.map_err(SideError::source)
    }

    async fn put(&self, target: &mut Session, rows: &[Row], how: Write) -> Result<(), DriverError> {
        let writer = &self.sink.writer;
        writer.check_sizes(rows, target.packet_bytes)?;
        let bytes = (target.packet_bytes / 2).min(APPLY_BYTES_MAX);
        let rows: Vec<&Row> = rows.iter().collect();
        writer
            .write_rows(&mut target.conn, &rows, (bytes, how))
            .await
    }

    /// Begins anew: both servers' transactions are taken back.
    async fn take_back(&self, (source, target): Sessions<'_>) -> Result<(), SideError> {
        let back = target.conn.query_drop("ROLLBACK").await;
        back.map_err(SideError::target)?;
        let back = source.conn.query_drop("ROLLBACK").await;
        back.map_err(SideError::source)
    }
}

impl PairUnit for TransferUnit<'_> {
    type Output = CopiedRows;

    fn task(&self) -> Task {
        match self.what {
            What::Range(range, _) => Task::Copy(range.clone()),
            What::Keys(keys) => Task::CopyKeys {
                first: keys.first().cloned(),
                count: keys.len(),
            },
        }
    }

    fn table(&self, side: Side) -> &TableName {
        match side {
            Side::Source => &self.sink.writer.plan.source().name,
            Side::Target => self.sink.writer.plan.target(),
        }
    }

    async fn run(
        &self,
        (source, target): (&mut Session, &mut Session),
        unsure: bool,
    ) -> Result<CopiedRows, SideError> {
        let mut course = self.course(unsure);
        // With a filter, another chunk may bring a unique value between the
        // removal of the row that had it and the write.
        let repeats = course.reads_keys || self.sink.writer.plan.filter().is_some();
        let mut reads_left = if repeats { READS_MAX } else { 1 };
        loop {
            let done = self.write((&mut *source, &mut *target), &course).await;
            let failed = match done {
                Ok(copied) => {
                    let commit = target.conn.query_drop("COMMIT").await;
                    return commit.map(|()| copied).map_err(SideError::target);
                }
                Err(failed) => failed,
            };
            // A key that came back since the keys were read.
            let came_back =
                failed.side == Side::Target && server_code(&failed.error) == Some(ER_DUP_ENTRY);
            if came_back && reads_left > 1 {
                reads_left -= 1;
            } else if is_not_loaded(&failed.error) {
                course.loads = false;
            } else {
                return Err(failed);
            }
            self.take_back((&mut *source, &mut *target)).await?;
        }
    }

    fn limit(&self, limits: &WorkLimits) -> Duration {
        limits.statement
    }
}

/// Hands rows on in portions.
struct Rows<'a> {
    sink: &'a TransferSink,
    sender: mpsc::Sender<Vec<Row>>,
    rows: Vec<Row>,
    bytes: usize,
    count: u64,
    special: Vec<Key>,
}

impl<'a> Rows<'a> {
    const fn new(sink: &'a TransferSink, sender: mpsc::Sender<Vec<Row>>) -> Self {
        Self {
            sink,
            sender,
            rows: Vec::new(),
            bytes: 0,
            count: 0,
            special: Vec::new(),
        }
    }

    /// Returns whether more are wanted.
    async fn send(&mut self) -> bool {
        self.bytes = 0;
        let rows = std::mem::take(&mut self.rows);
        rows.is_empty() || self.sender.send(rows).await.is_ok()
    }
}

impl Outlet for Rows<'_> {
    async fn take(&mut self, row: Read) -> Result<bool, DriverError> {
        let values = match row {
            Read::Values(values) => values,
            Read::Special(key) => {
                self.special.push(key);
                return Ok(true);
            }
        };
        self.count += 1;
        let row = self.sink.reader.row(values);
        self.bytes += row.size_bytes();
        self.rows.push(row);
        if self.rows.len() < PORTION_ROWS && self.bytes < PORTION_BYTES {
            return Ok(true);
        }
        Ok(self.send().await)
    }
}

/// The chunk has to be done again without loading.
#[derive(Debug, thiserror::Error)]
#[error("the target did not take all rows as they are")]
struct NotLoaded;

fn is_not_loaded(error: &DriverError) -> bool {
    matches!(error, DriverError::Other(inner) if inner.is::<NotLoaded>())
}

/// Source: MySQL 9.7 "Server Error Message Reference".
const ER_DUP_ENTRY: u16 = 1062;

/// How often keys are read when one of them came back meanwhile.
const READS_MAX: u32 = 5;

/// What is written at once, and read meanwhile.
const PORTION_ROWS: usize = 512;
const PORTION_BYTES: usize = 2 << 20;

/// Rows whose documents are looked at one by one.
const SPECIAL_ROWS: usize = 16;
