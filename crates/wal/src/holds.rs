//! `Holds`: which positions are still needed by readers. A segment with records at or above the lowest hold is neither
//! removed nor used again.
//!
//! Knows no files: `Segments` asks before it frees, and whoever reads through a mapping or owns a cursor holds.
//!
//! # Invariants
//! - K1. A hold is made in the same critical section (of `Segments`) in which its owner learns the segments: what it
//!   learned there is not freed while the hold stands.
//! - K2. A hold only moves up; dropping it lets go.
//! - K3. `start` is the position of the oldest record kept. It moves before the files below it are touched, so a reader
//!   that finds a file changed finds `start` moved too.
//!
//! Checked by `read_tests` (mapped files are not freed) and `consumers_tests`.

use std::{collections::BTreeMap, sync::Arc};

use collie_base::Lsn;
use parking_lot::Mutex;

#[derive(Debug)]
struct Inner {
    next_id: u64,
    held: BTreeMap<u64, (Lsn, String)>,
    start: Lsn,
}

/// The positions that are held, and by whom.
#[derive(Debug)]
pub(crate) struct Holds(Mutex<Inner>);

impl Holds {
    /// Starts with nothing held and the oldest record at `start`.
    pub(crate) fn new(start: Lsn) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Inner { next_id: 0, held: BTreeMap::new(), start })))
    }

    /// Holds everything at or above `lsn` for `who`. K1: called through `Segments::hold_from`.
    pub(crate) fn hold(self: &Arc<Self>, lsn: Lsn, who: String) -> Hold {
        let mut inner = self.0.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.held.insert(id, (lsn, who));
        Hold { holds: self.clone(), id }
    }

    /// Returns the lowest position held, and by whom.
    pub(crate) fn lowest(&self) -> Option<(Lsn, String)> {
        self.0.lock().held.values().min_by_key(|(lsn, _)| *lsn).cloned()
    }

    /// Returns the position of the oldest record kept.
    pub(crate) fn start(&self) -> Lsn {
        self.0.lock().start
    }

    /// Notes that records below `start` are about to go (K3).
    pub(crate) fn set_start(&self, start: Lsn) {
        self.0.lock().start = start;
    }
}

/// One position held; dropping it lets go.
#[derive(Debug)]
pub(crate) struct Hold {
    holds: Arc<Holds>,
    id: u64,
}

impl Hold {
    /// Lets go of what lies below `lsn` (K2).
    pub(crate) fn move_to(&self, lsn: Lsn) {
        if let Some((held, _)) = self.holds.0.lock().held.get_mut(&self.id) {
            *held = lsn.max(*held);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.0.lock().held.remove(&self.id);
    }
}
