//! `Haste`: somebody follows the log closely, so that what nobody waits for is flushed sooner than `wal.flush_delay` says:
//! a shipper (`replication.flush_delay`).
//!
//! Writers pay nothing for it: the keeper alone looks, when it is about to wait.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::Flusher;

#[derive(Debug, Default)]
struct Asked {
    delays: BTreeMap<u64, Duration>,
    next_id: u64,
}

/// The delays that were asked for.
#[derive(Debug, Default)]
pub(super) struct Delays(Mutex<Asked>);

impl Delays {
    /// Returns the shortest one, if it is below `usual`.
    pub(super) fn shortest(&self, usual: Duration) -> Duration {
        self.0.lock().delays.values().copied().fold(usual, Duration::min)
    }
}

/// A delay that is asked for until this is dropped.
#[derive(Debug)]
pub(crate) struct Haste {
    delays: Arc<Delays>,
    id: u64,
}

impl Drop for Haste {
    fn drop(&mut self) {
        self.delays.0.lock().delays.remove(&self.id);
    }
}

impl Flusher {
    /// Has what nobody waits for flushed after `delay` at the latest, while the answer is kept; zero asks for nothing.
    pub(crate) fn hurry(&self, delay: Duration) -> Haste {
        let delays = self.delays.clone();
        let id = {
            let mut asked = delays.0.lock();
            let id = asked.next_id;
            asked.next_id += 1;
            if delay > Duration::ZERO {
                asked.delays.insert(id, delay);
            }
            id
        };
        // It may be in the middle of a longer wait.
        self.poke(true);
        Haste { delays, id }
    }
}
