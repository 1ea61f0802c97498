//! `Background`: a thread of the engine that comes back to its work after a pause, until its database goes.
//!
//! Nothing visible depends on one except memory, the length of the log, and how long an open takes.
//!
//! | thread | its rounds |
//! |---|---|
//! | `collie-gc` | [`collector`]: retire transaction ids, move the horizon, clean rows, give tokens to writers that wait |
//! | `collie-flush` | [`flusher`](crate::flusher::flusher): flush families to levels, give up log |
//! | `collie-free` | [`freer`]: free the rows of dropped families, when one is |
//! | `collie-scrub` | [`scrubber`](crate::scrub::scrubber): read tables of the levels, write a tree anew of which one has rotted |

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use collie_obs::{Source, work_for};
use parking_lot::{Condvar, Mutex};

use crate::shared::Shared;

/// Before the first round of any thread.
const FIRST: Duration = Duration::from_millis(2);
/// Between two rounds of the collector after a long time without work, unless the interval with it is longer.
const TICK_MAX: Duration = Duration::from_millis(64);

/// Returns the rounds of the collector.
pub(crate) fn collector() -> impl FnMut(&Shared) -> Duration + Send {
    let mut pause = Duration::ZERO;
    move |shared| {
        let interval = shared.live.gc_interval();
        pause = if shared.tick() > 0 { interval } else { (pause * 2).clamp(interval, TICK_MAX.max(interval)) };
        pause
    }
}

/// Between two looks for a dropped family by a thread that is woken for each.
const IDLE: Duration = Duration::from_secs(60);

/// Returns the rounds of the thread that frees families.
pub(crate) fn freer() -> impl FnMut(&Shared) -> Duration + Send {
    |shared| if shared.free_next() { Duration::ZERO } else { IDLE }
}

#[derive(Debug, Default)]
struct Told {
    stop: bool,
    /// Something came for the next round, perhaps while this one was at work.
    wake: bool,
}

#[derive(Debug, Default)]
struct Signal {
    told: Mutex<Told>,
    changed: Condvar,
}

/// The running thread. Dropping it stops it, after the round it is at.
#[derive(Debug)]
pub(crate) struct Background {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts a thread over a database that it does not keep alive. Each round says how long the pause after it is.
    pub(crate) fn start(
        name: &str,
        shared: Weak<Shared>,
        mut round: impl FnMut(&Shared) -> Duration + Send + 'static,
    ) -> std::io::Result<Self> {
        let signal = Arc::new(Signal::default());
        let heard = Arc::clone(&signal);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut pause = FIRST;
            loop {
                let mut told = heard.told.lock();
                if !told.stop && !told.wake {
                    heard.changed.wait_for(&mut told, pause);
                }
                if told.stop {
                    return;
                }
                told.wake = false;
                drop(told);
                let Some(shared) = shared.upgrade() else { return };
                // On a replica all of this is replay's.
                let _scope = shared.txns.log().is_held().then(|| work_for(Source::Apply));
                pause = round(&shared);
            }
        })?;
        Ok(Self { signal, thread: Some(thread) })
    }

    /// Has the next round begin at once.
    pub(crate) fn wake(&self) {
        self.signal.told.lock().wake = true;
        self.signal.changed.notify_all();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.signal.told.lock().stop = true;
        self.signal.changed.notify_all();
        // The thread itself drops the database when it held it last; it ends right after.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "background_tests.rs"]
mod tests;
