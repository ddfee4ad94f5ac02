//! `LOAD DATA LOCAL` out of memory.

use futures::{FutureExt, StreamExt, stream};
use mysql_async::{Conn, Error as DriverError, prelude::Queryable};
use oxferry_schema::{Column, ErrorClass, Key, Predicate, Value, classify, server_code};
use tokio::sync::{Notify, mpsc};

use super::{
    encode::Field,
    read::{Outlet, Read, Reader},
};
use crate::{
    CopyPlan,
    connections::{Session, SideError},
    param,
    sink::decide::Write,
};

/// The statement of one plan, and how its lines are written.
#[derive(Debug)]
pub(super) struct LoadStatement {
    insert: String,
    replace: String,
    fields: Vec<Field>,
}

/// One range's load.
pub(super) struct Loading<'a> {
    pub(super) reader: &'a Reader,
    pub(super) load: &'a LoadStatement,
    pub(super) how: Write,
}

/// What became of a load.
pub(super) enum Outcome {
    /// So many rows were written, and those of the keys are left.
    Loaded(u64, Vec<Key>),
    /// Some rows were not, or not as they are: the transaction must be taken
    /// back.
    Not {
        /// What the server said.
        said: String,
        /// Whether the server refuses the statement itself.
        is_refused: bool,
    },
}

impl LoadStatement {
    /// Writes the statement for a plan; `None` where the server would have to
    /// convert values, which it does in its own way here.
    ///
    /// `CHARACTER SET binary`: the bytes of text go into a column of the same
    /// character set as they are. Source: MySQL 9.7 manual, "LOAD DATA
    /// Statement"; observed on 9.7.4, test
    /// `values_of_every_type_arrive_as_they_are`.
    pub(super) fn new(plan: &CopyPlan) -> Option<Self> {
        if !plan.pairs().all(|(_, from, to)| is_same(from, to)) {
            return None;
        }
        let (mut places, mut sets) = (Vec::new(), Vec::new());
        for (at, (_, from, to)) in plan.pairs().enumerate() {
            match converted(from, to, &format!("@v{at}")) {
                None => places.push(to.name.to_string()),
                Some(expression) => {
                    places.push(format!("@v{at}"));
                    sets.push(format!("{} = {expression}", to.name));
                }
            }
        }
        let set = match sets.is_empty() {
            true => String::new(),
            false => format!(" SET {}", sets.join(", ")),
        };
        let statement = |replace: &str| {
            format!(
                "LOAD DATA LOCAL INFILE 'oxferry' {replace}INTO TABLE {} CHARACTER SET binary \
                 FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' ({}){set}",
                plan.target(),
                places.join(", ")
            )
        };
        Some(Self {
            insert: statement(""),
            replace: statement("REPLACE "),
            fields: plan
                .pairs()
                .map(|(_, from, to)| Field::new(from, to))
                .collect(),
        })
    }
}

/// Returns whether two columns hold the same values in the same way.
fn is_same(from: &Column, to: &Column) -> bool {
    from.column_type == to.column_type && from.charset == to.charset && from.members == to.members
}

/// Returns what makes the column's value of a variable with the field's bytes,
/// or `None` where the field is the value.
fn converted(from: &Column, to: &Column, variable: &str) -> Option<String> {
    match from.data_type.as_str() {
        "json" => Some(format!("CAST(CONVERT({variable} USING utf8mb4) AS JSON)")),
        "time" => Some(param::expression(from, to).replace('?', variable)),
        // Members are UTF-8 here, and the column's own bytes there.
        "enum" | "set" if !from.members.iter().all(|member| member.is_ascii()) => {
            Some(format!("CONVERT({variable} USING utf8mb4)"))
        }
        "enum" | "set" if is_wide(from) => Some(format!("CONVERT({variable} USING utf8mb4)")),
        _ => None,
    }
}

/// Returns whether a character set has more than one byte for ASCII.
fn is_wide(column: &Column) -> bool {
    matches!(
        column.charset.as_deref(),
        Some("ucs2" | "utf16" | "utf16le" | "utf32")
    )
}

impl Loading<'_> {
    /// Reads and loads rows at the same time, in the target's transaction.
    pub(super) async fn run(
        &self,
        (source, target): (&mut Session, &mut Session),
        rows: &Predicate,
    ) -> Result<Outcome, SideError> {
        let (sender, receiver) = mpsc::channel::<Vec<u8>>(PIECES);
        let stop = Notify::new();
        let mut lines = Lines {
            fields: &self.load.fields,
            piece: Vec::new(),
            sender,
            stop: &stop,
            packet_bytes: (target.packet_bytes / 2).clamp(1, PACKET_BYTES),
            count: 0,
            special: Vec::new(),
        };
        let read = async {
            let rows = (rows.clone(), None);
            let done = self.reader.read(&mut source.conn, rows, &mut lines).await;
            if done.is_ok() {
                lines.send().await;
            }
            // The end of the data: the sender goes.
            let Lines { count, special, .. } = lines;
            done.map(|()| (count, special))
        };
        let load = async {
            let done = self.load(&mut target.conn, receiver).await;
            stop.notify_one();
            done
        };
        let (read, loaded) = futures::join!(read.boxed(), load.boxed());
        if let Err(error) = loaded {
            return not_loaded(error).map_err(SideError::target);
        }
        let (count, special) = read.map_err(SideError::source)?;
        let said = target.conn.info().into_owned();
        let whole = Summary::read(&said).is_some_and(|found| found.is_whole(count, self.how));
        if whole && target.conn.get_warnings() == 0 {
            return Ok(Outcome::Loaded(count, special));
        }
        let said = first_warning(&mut target.conn, said).await;
        Ok(Outcome::Not {
            said: said.map_err(SideError::target)?,
            is_refused: false,
        })
    }

    async fn load(
        &self,
        conn: &mut Conn,
        receiver: mpsc::Receiver<Vec<u8>>,
    ) -> Result<(), DriverError> {
        let pieces = stream::unfold(receiver, async |mut receiver| {
            let piece = receiver.recv().await?;
            Some((Ok(piece.into()), receiver))
        });
        conn.set_infile_handler(async move { Ok(pieces.boxed()) });
        conn.query_drop(match self.how {
            Write::Insert => &self.load.insert,
            Write::Replace => &self.load.replace,
        })
        .await
    }
}

/// Decides what an error of the statement means: one that a statement with
/// values says better, or one that ends the attempt.
fn not_loaded(error: DriverError) -> Result<Outcome, DriverError> {
    let is_refused = server_code(&error).is_some_and(|code| NOT_ALLOWED.contains(&code));
    if is_refused || classify(&error) == ErrorClass::DataRefused {
        let said = error.to_string();
        return Ok(Outcome::Not { said, is_refused });
    }
    Err(error)
}

async fn first_warning(conn: &mut Conn, said: String) -> Result<String, DriverError> {
    let told: Option<(String, u16, String)> = conn.query_first("SHOW WARNINGS LIMIT 1").await?;
    Ok(match told {
        Some((_, code, message)) => format!("{said}: {message} ({code})"),
        None => said,
    })
}

/// Rows on their way, as lines.
struct Lines<'a> {
    fields: &'a [Field],
    piece: Vec<u8>,
    sender: mpsc::Sender<Vec<u8>>,
    /// Says that nobody takes any more.
    stop: &'a Notify,
    /// How large a piece may be.
    packet_bytes: usize,
    count: u64,
    special: Vec<Key>,
}

impl Lines<'_> {
    /// Returns whether more is wanted.
    ///
    /// A piece is a packet, so a large row takes several: the server ends the
    /// connection of whoever sends a larger packet than it allows.
    async fn send(&mut self) -> bool {
        let room = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        let piece = std::mem::replace(&mut self.piece, room);
        if piece.len() <= self.packet_bytes {
            return self.send_one(piece).await;
        }
        for part in piece.chunks(self.packet_bytes) {
            if !self.send_one(part.to_vec()).await {
                return false;
            }
        }
        true
    }

    async fn send_one(&self, piece: Vec<u8>) -> bool {
        tokio::select! {
            sent = self.sender.send(piece) => sent.is_ok(),
            () = self.stop.notified() => false,
        }
    }

    fn add(&mut self, values: &[Value]) {
        for (at, (field, value)) in self.fields.iter().zip(values).enumerate() {
            if at > 0 {
                self.piece.push(b'\t');
            }
            field.encode(value, &mut self.piece);
        }
        self.piece.push(b'\n');
        self.count += 1;
    }
}

impl Outlet for Lines<'_> {
    async fn take(&mut self, row: Read) -> Result<bool, DriverError> {
        match row {
            Read::Values(values) => self.add(&values),
            Read::Special(key) => self.special.push(key),
        }
        if self.piece.len() < PIECE_BYTES {
            return Ok(true);
        }
        Ok(self.send().await)
    }
}

/// What the server says of a load: `Records: 1  Deleted: 0  Skipped: 0
/// Warnings: 0`. Source: MySQL 9.7 manual, "LOAD DATA Statement", "Statement
/// Result Information".
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    records: u64,
    deleted: u64,
    skipped: u64,
    warnings: u64,
}

impl Summary {
    fn read(said: &str) -> Option<Self> {
        let number = |name: &str| {
            let (_, rest) = said.split_once(name)?;
            rest.split_whitespace().next()?.parse().ok()
        };
        Some(Self {
            records: number("Records: ")?,
            deleted: number("Deleted: ")?,
            skipped: number("Skipped: ")?,
            warnings: number("Warnings: ")?,
        })
    }

    /// Returns whether all of `count` rows were written, each as it is.
    ///
    /// With `LOCAL` the server can't stop the client, so it goes on as with
    /// `IGNORE`: a row that meets another one is skipped, a value that doesn't
    /// fit is bent, a row without a field gets a default, and each of these is
    /// only a warning. Source: as above.
    fn is_whole(&self, count: u64, how: Write) -> bool {
        let clear = how == Write::Replace || self.deleted == 0;
        self.records == count && self.skipped == 0 && self.warnings == 0 && clear
    }
}

/// `ER_NOT_ALLOWED_COMMAND`, `ER_CLIENT_LOCAL_FILES_DISABLED`: `local_infile`
/// is off. Source: MySQL 9.7 "Server Error Message Reference".
const NOT_ALLOWED: [u16; 2] = [1148, 3948];

/// Enough rows for a packet.
const PIECE_BYTES: usize = 128 << 10;

/// The most of a large row that one packet has.
const PACKET_BYTES: usize = 512 << 10;

/// Pieces that wait for the target.
const PIECES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_whole_only_without_a_word() {
        let said = |text: &str| Summary::read(text).unwrap();
        let whole = said("Records: 3  Deleted: 0  Skipped: 0  Warnings: 0");
        assert!(whole.is_whole(3, Write::Insert));
        assert!(!whole.is_whole(4, Write::Insert));
        let replaced = said("Records: 3  Deleted: 2  Skipped: 0  Warnings: 0");
        assert!(replaced.is_whole(3, Write::Replace));
        assert!(!replaced.is_whole(3, Write::Insert));
        let skipped = said("Records: 3  Deleted: 0  Skipped: 1  Warnings: 1");
        assert!(!skipped.is_whole(3, Write::Replace));
        assert_eq!(Summary::read("Rows matched: 1"), None);
    }
}
