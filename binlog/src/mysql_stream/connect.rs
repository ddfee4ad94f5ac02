//! One replication connection.

use std::time::Duration;

use mysql_async::{BinlogStream, BinlogStreamRequest, Conn, OptsBuilder, prelude::Queryable};
use tokio::time::timeout;

use super::StreamConfig;
use crate::{GtidSet, Position, StreamError, error::Failure};

/// A connection that sends the log.
pub(super) struct Connection {
    pub(super) stream: BinlogStream,
    /// The server's UUID.
    pub(super) server: String,
    /// Whether the server compares table names without regard to letter case.
    pub(super) ignore_case: bool,
}

/// The largest event that a server sends, whatever its `max_allowed_packet`.
///
/// Source: MySQL 9.7 manual, `replica_max_allowed_packet`.
const PACKET_BYTES_MAX: usize = 1 << 30;

/// How long connecting and logging in may take.
const CONNECT_MAX: Duration = Duration::from_secs(15);

/// Connects, and asks for the log from `from` on.
///
/// `before` is the UUID of the server that was read before, if any.
pub(super) async fn connect(
    config: StreamConfig,
    from: Position,
    before: Option<String>,
) -> Result<Connection, Failure> {
    if from.gtids.is_none() && u32::try_from(from.file.offset_bytes()).is_err() {
        let from = Box::new(from.file);
        return Err(Failure::Lasting(StreamError::OffsetTooLarge { from }));
    }
    let connected = timeout(CONNECT_MAX, request(&config, &from, before)).await;
    connected.unwrap_or_else(|_elapsed| {
        Err(Failure::Passing(StreamError::Silent {
            seconds: CONNECT_MAX.as_secs(),
        }))
    })
}

async fn request(
    config: &StreamConfig,
    from: &Position,
    before: Option<String>,
) -> Result<Connection, Failure> {
    let sort = |error| StreamError::sort(error, from);
    let mut conn = log_in(config).await.map_err(sort)?;
    let settings = "SELECT @@server_uuid, @@lower_case_table_names";
    let settings: Option<(String, u8)> = conn.query_first(settings).await.map_err(sort)?;
    let (server, case) = settings.unwrap_or_default();
    let request = BinlogStreamRequest::new(config.server_id);
    let request = match &from.gtids {
        Some(gtids) => {
            if before.is_none_or(|before| before != server) {
                let missing = missing(&mut conn, gtids).await.map_err(sort)?;
                if !missing.is_empty() {
                    let behind = StreamError::ServerBehind { server, missing };
                    return Err(Failure::Passing(behind));
                }
            }
            request.with_gtid().with_gtid_set(gtids.to_sids())
        }
        None => request
            .with_filename(from.file.file().as_bytes())
            .with_pos(from.file.offset_bytes()),
    };
    Ok(Connection {
        stream: conn.get_binlog_stream(request).await.map_err(sort)?,
        server,
        ignore_case: case != 0,
    })
}

async fn log_in(config: &StreamConfig) -> mysql_async::Result<Conn> {
    // Nanoseconds. Servers before 8.4 know the older name only.
    let heartbeat = config.heartbeat.as_nanos();
    let mut setup = config.opts.setup().to_vec();
    setup.push(format!("SET @source_heartbeat_period = {heartbeat}"));
    setup.push(format!("SET @master_heartbeat_period = {heartbeat}"));
    let opts = OptsBuilder::from_opts(config.opts.clone())
        .max_allowed_packet(Some(PACKET_BYTES_MAX))
        .setup(setup);
    Conn::new(opts).await
}

/// The GTIDs among these that the server has never executed.
///
/// A server compares a reader's GTIDs with its own only as far as they bear
/// its own UUID, and takes others for granted. Source: MySQL 9.7,
/// `sql/rpl_binlog_sender.cc`, `Binlog_sender::check_start_file`.
async fn missing(conn: &mut Conn, gtids: &GtidSet) -> mysql_async::Result<String> {
    let subtract = "SELECT GTID_SUBTRACT(?, @@GLOBAL.gtid_executed)";
    let missing: Option<String> = conn.exec_first(subtract, (gtids.to_string(),)).await?;
    Ok(missing.unwrap_or_default().replace('\n', ""))
}
