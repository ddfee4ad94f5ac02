//! The contracts of the traits, held on a real server.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use oxferry_copier::{
    SelectSink, TableChunker, TransferSink,
    conformance::{self, SinkBed},
    engine::Mode,
};

use crate::{
    bed::{Bed, key},
    pair::{LOADS, Pair},
};

struct RealBed(Bed, SelectSink);

impl SinkBed for RealBed {
    type Sink = SelectSink;

    fn sink(&self) -> &SelectSink {
        &self.1
    }

    async fn fill(&mut self, source: &[(i64, i64)], target: &[(i64, i64)]) {
        for (table, rows) in [("t", source), ("n", target)] {
            self.0.run(&format!("DELETE FROM {table}")).await;
            let insert = format!("INSERT INTO {table} VALUES (?, ?)");
            let done = self.0.conn.exec_batch(insert, rows).await;
            done.unwrap();
        }
    }

    async fn target(&mut self) -> Vec<(i64, i64)> {
        let rows = "SELECT * FROM n ORDER BY id";
        self.0.conn.query(rows).await.unwrap()
    }
}

struct TwoBeds(Pair, TransferSink);

impl SinkBed for TwoBeds {
    type Sink = TransferSink;

    fn sink(&self) -> &TransferSink {
        &self.1
    }

    async fn fill(&mut self, source: &[(i64, i64)], target: &[(i64, i64)]) {
        for (bed, rows) in [(&mut self.0.source, source), (&mut self.0.target, target)] {
            bed.run("DELETE FROM t").await;
            let done = bed.conn.exec_batch("INSERT INTO t VALUES (?, ?)", rows);
            done.await.unwrap();
        }
    }

    async fn target(&mut self) -> Vec<(i64, i64)> {
        let rows = "SELECT * FROM t ORDER BY id";
        self.0.target.conn.query(rows).await.unwrap()
    }
}

#[tokio::test]
async fn the_tables_chunker_keeps_the_contract() {
    let mut bed = Bed::new(&[
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (-9), (0), (1), (5), (6), (7), (40)",
    ])
    .await;
    let table = bed.table("t").await;
    let row_key = table.row_key().unwrap();
    let connections = bed.connections().await;
    let make = |within| {
        let connections = Arc::clone(&connections);
        let side = row_key.side(&table).unwrap();
        TableChunker::new(
            connections,
            &table.name,
            row_key.index.clone(),
            side,
            within,
        )
    };
    let keys = [-9, 0, 1, 5, 6, 7, 40].map(|id| key(&[id]));
    conformance::chunks(make, &keys).await;
}

#[tokio::test]
async fn the_select_sink_keeps_the_contract_in_both_modes() {
    for mode in [Mode::Ranged, Mode::Ordered] {
        let mut bed = Bed::new(&[
            "CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)",
            "CREATE TABLE n LIKE t",
        ])
        .await;
        let sink = bed.sink(mode).await;
        conformance::sinks(&mut RealBed(bed, sink)).await;
    }
}

#[tokio::test]
async fn the_transfer_sink_keeps_the_contract_in_both_modes_and_ways() {
    for mode in [Mode::Ranged, Mode::Ordered] {
        for load in LOADS {
            let mut pair = Pair::new(&["CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)"]).await;
            let sink = pair.sink(mode, load).await;
            conformance::sinks(&mut TwoBeds(pair, sink)).await;
        }
    }
}
