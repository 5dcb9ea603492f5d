use std::sync::Arc;

use super::*;
use crate::store::suite::Keeper;

/// Lives as long as the test: "opening again" finds what was there.
struct InMemory(Arc<MemoryStore>);

impl Keeper for InMemory {
    type Store = Arc<MemoryStore>;

    fn tokens(store: &Arc<MemoryStore>) -> usize {
        store.lock().tokens.len()
    }

    fn new() -> Self {
        Self(Arc::new(MemoryStore::new()))
    }

    fn open(&self) -> Arc<MemoryStore> {
        self.0.clone()
    }
}

crate::store::suite::store_suite!(InMemory);
