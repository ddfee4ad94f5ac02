//! How many changes a second the copy engine takes and gives out, on one
//! core, with a million of them held: `cargo run --release --example
//! engine_speed`.

use std::{
    io::{self, Write},
    time::Instant,
};

use fastrand::Rng;
use oxferry_copier::{KeyedChange, engine::*};
use oxferry_schema::{Key, KeyPart, KeyRange, Row, Value};

const HELD: u64 = 1_000_000;
const CHANGES: u64 = 3_000_000;

fn main() -> io::Result<()> {
    for mode in [Mode::Ranged, Mode::Ordered] {
        let mut config = EngineConfig::default();
        config.buffer_rows_max = HELD;
        config.buffer_bytes_max = u64::MAX;
        let mut engine = Engine::new(config, vec![TablePlan::resume(mode, vec![KeyRange::ALL])]);
        engine.handle_ranges_exhausted(TableId(0));
        let begun = Instant::now();
        let (mut rng, mut seq, mut given) = (Rng::with_seed(1), 0, 0);
        while seq < CHANGES || engine.buffered_rows() > 0 {
            if seq < CHANGES && engine.accepts_changes() {
                seq += 1;
                engine.handle_change(TxnSeq(seq), TableId(0), change(&mut rng));
                engine.handle_commit(TxnSeq(seq));
            } else if let Some(Action::Apply { id, batch, .. }) = engine.poll() {
                given += batch.changes.len();
                engine.handle_batch_applied(id);
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        writeln!(
            io::stdout(),
            "{mode:?}: {CHANGES} changes, {given} given out, {:.0} changes a second",
            CHANGES as f64 / seconds
        )?;
    }
    Ok(())
}

fn change(rng: &mut Rng) -> KeyedChange {
    KeyedChange {
        key: Key::new([KeyPart::Int(rng.i64(0..10_000_000).into())]),
        image: Some(Row::new([Value::Int(1), Value::Bytes(vec![b'x'; 100])])),
    }
}
