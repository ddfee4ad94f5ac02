//! The store for tests.

use oxferry_state::{MemoryStore, conformance};

#[tokio::test]
async fn the_memory_store_keeps_the_contract() {
    conformance::all(&MemoryStore::new()).await;
}
