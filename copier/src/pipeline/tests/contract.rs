//! The fakes keep the contracts that the driver relies on.

use std::sync::Arc;

use super::fakes::{MemoryChunker, MemorySink, World, key};
use crate::conformance::{self, SinkBed};

struct MemoryBed(Arc<World>, MemorySink);

impl SinkBed for MemoryBed {
    type Sink = MemorySink;

    fn sink(&self) -> &MemorySink {
        &self.1
    }

    async fn fill(&mut self, source: &[(i64, i64)], target: &[(i64, i64)]) {
        let mut tables = self.0.tables();
        tables.source = source.iter().copied().collect();
        tables.target = target.iter().copied().collect();
    }

    async fn target(&mut self) -> Vec<(i64, i64)> {
        let tables = self.0.tables();
        tables.target.iter().map(|(id, v)| (*id, *v)).collect()
    }
}

#[tokio::test]
async fn the_chunker_in_memory_keeps_the_contract() {
    let ids = [-9, 0, 1, 5, 6, 7, 40];
    let world = World::new();
    world.tables().source = ids.into_iter().map(|id| (id, id)).collect();
    let make = |within| MemoryChunker::new(&world, within);
    conformance::chunks(make, &ids.map(key)).await;
}

#[tokio::test]
async fn the_sink_in_memory_keeps_the_contract() {
    let world = World::new();
    let sink = MemorySink(Arc::clone(&world));
    conformance::sinks(&mut MemoryBed(world, sink)).await;
}
