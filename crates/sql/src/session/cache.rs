//! `PlanCache`: parsed and planned statements, shared by all sessions.
//!
//! # Invariants
//! - P1. An entry is found only under everything its meaning depends on: text, declared parameter types and search path.
//!   Its plan carries the epoch it was made for; the session checks that after it has the table locks (sql.md Q5).
//! - P2. Texts kept are at most [`CACHE_BYTES`] in each of two generations. What is not asked for while a generation
//!   fills is forgotten: least recently used, coarsely.

use std::sync::Arc;

use collie_base::Map;
use parking_lot::Mutex;

use crate::session::prepared::Prepared;

/// Text kept per generation, in bytes, counting [`ENTRY_BYTES`] for each entry besides.
const CACHE_BYTES: usize = 16 << 20;
/// What an entry weighs besides its text: tree and plan of a short statement.
const ENTRY_BYTES: usize = 8 << 10;
/// Longest text kept.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// What an entry is found by (P1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) text: Arc<str>,
    pub(super) types: Vec<u32>,
    pub(super) search_path: Arc<str>,
}

#[derive(Default)]
struct Generations {
    young: Map<Key, Arc<Prepared>>,
    old: Map<Key, Arc<Prepared>>,
    young_bytes: usize,
}

/// The cache.
#[derive(Default)]
pub(super) struct PlanCache(Mutex<Generations>);

impl PlanCache {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Prepared>> {
        let mut generations = self.0.lock();
        if let Some(found) = generations.young.get(key) {
            return Some(found.clone());
        }
        let found = generations.old.remove(key)?;
        generations.put(key.clone(), found.clone());
        Some(found)
    }

    pub(super) fn put(&self, key: Key, prepared: Arc<Prepared>) {
        if key.text.len() <= TEXT_BYTES_MAX {
            self.0.lock().put(key, prepared);
        }
    }

    pub(super) fn remove(&self, key: &Key) {
        let mut generations = self.0.lock();
        if generations.young.remove(key).is_some() {
            let bytes = key.text.len() + ENTRY_BYTES;
            generations.young_bytes = generations.young_bytes.saturating_sub(bytes);
        }
        generations.old.remove(key);
    }

    pub(super) fn clear(&self) {
        *self.0.lock() = Generations::default();
    }
}

impl Generations {
    fn put(&mut self, key: Key, prepared: Arc<Prepared>) {
        let bytes = key.text.len() + ENTRY_BYTES;
        if self.young_bytes + bytes > CACHE_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if self.young.insert(key, prepared).is_none() {
            self.young_bytes += bytes;
        }
    }
}
