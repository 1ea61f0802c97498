//! `PlanCache`: parsed and planned statements, shared by all sessions.
//!
//! # Invariants
//! - P1. An entry is found only under everything that its meaning depends on: text, declared parameter types, search
//!   path, and how literals are read (order of dates, time zone, style of intervals). Its plan carries the epoch that
//!   it was made for; the session checks the epoch after it has the table locks (SQL-5).
//! - P2. At most [`CACHE_BYTES`] of texts are kept in each of two generations. An entry that is not asked for while a
//!   generation fills is forgotten: an approximation of least recently used.
//! - P3. Simple text gets an entry when its form is seen again, so that texts sent once leave only a hash. A form that
//!   could not be planned gets none.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use collie_base::Map;
use parking_lot::Mutex;

use crate::{
    session::prepared::Prepared,
    types::{
        IntervalStyle, TextContext,
        datetime::{DateOrder, Zone},
    },
};

/// Text that is kept per generation, in bytes, with [`ENTRY_BYTES`] added for each entry.
const CACHE_BYTES: usize = 16 << 20;
/// Assumed size of an entry without its text, in bytes: the tree and the plan of a short statement.
const ENTRY_BYTES: usize = 8 << 10;
/// Longest text that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The key of an entry (P1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) text: Arc<str>,
    pub(super) types: Vec<u32>,
    pub(super) search_path: Arc<str>,
    pub(super) reading: Reading,
}

/// The session settings that decide how literals are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reading {
    date_order: DateOrder,
    zone: Zone,
    interval_style: IntervalStyle,
}

impl From<TextContext> for Reading {
    fn from(context: TextContext) -> Self {
        let TextContext { date_order, zone, interval_style, date_style: _, now: _, bytea_output: _, float_digits: _ } =
            context;
        Self { date_order, zone, interval_style }
    }
}

#[derive(Default)]
struct Generations {
    young: Map<Key, Arc<Prepared>>,
    old: Map<Key, Arc<Prepared>>,
    young_bytes: usize,
}

/// Number of slots for hashes of forms.
const SIGHTS: usize = 4096;
/// Low bits of a slot: what is known of the form.
const SEEN: u64 = 1;
const REFUSED: u64 = 2;
const KNOWN: u64 = 3;

/// Hashes of the forms seen last, and whether they could be planned (P3). A form may be forgotten, or mistaken for
/// another one with its hash: both only change how soon it gets an entry.
struct Sights {
    slots: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Default for Sights {
    fn default() -> Self {
        Self { slots: (0..SIGHTS).map(|_| AtomicU64::new(0)).collect(), hasher: RandomState::new() }
    }
}

impl Sights {
    fn slot(&self, form: &str) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(form);
        let place = usize::try_from(hash >> 32).expect("32 bits") % SIGHTS;
        (&self.slots[place], hash & !KNOWN)
    }
}

/// The cache.
#[derive(Default)]
pub(super) struct PlanCache {
    generations: Mutex<Generations>,
    sights: Sights,
}

impl PlanCache {
    /// Notes that simple text of this form was sent; returns whether it was seen before and may have an entry (P3).
    pub(super) fn seen_before(&self, form: &str) -> bool {
        let (slot, hash) = self.sights.slot(form);
        let before = slot.load(Ordering::Relaxed);
        if before & !KNOWN == hash {
            return before & KNOWN == SEEN;
        }
        slot.store(hash | SEEN, Ordering::Relaxed);
        false
    }

    /// Returns whether the form could not be planned.
    pub(super) fn is_refused(&self, form: &str) -> bool {
        let (slot, hash) = self.sights.slot(form);
        slot.load(Ordering::Relaxed) == hash | REFUSED
    }

    /// Notes that the form cannot be planned.
    pub(super) fn refuse(&self, form: &str) {
        let (slot, hash) = self.sights.slot(form);
        slot.store(hash | REFUSED, Ordering::Relaxed);
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<Prepared>> {
        let mut generations = self.generations.lock();
        if let Some(found) = generations.young.get(key) {
            return Some(found.clone());
        }
        let found = generations.old.remove(key)?;
        generations.put(key.clone(), found.clone());
        Some(found)
    }

    pub(super) fn put(&self, key: Key, prepared: Arc<Prepared>) {
        if key.text.len() <= TEXT_BYTES_MAX {
            self.generations.lock().put(key, prepared);
        }
    }

    pub(super) fn remove(&self, key: &Key) {
        let mut generations = self.generations.lock();
        if generations.young.remove(key).is_some() {
            let bytes = key.text.len() + ENTRY_BYTES;
            generations.young_bytes = generations.young_bytes.saturating_sub(bytes);
        }
        generations.old.remove(key);
    }

    pub(super) fn clear(&self) {
        *self.generations.lock() = Generations::default();
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
