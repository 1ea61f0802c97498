//! `Background`: a thread of the engine that works in rounds with a pause after each, as long as its database is
//! open.
//!
//! Nothing visible depends on these threads except memory, the length of the log, and how long an opening takes.
//!
//! | thread | its rounds |
//! |---|---|
//! | `collie-gc` | [`collector`]: retires xids, moves the horizon, cleans rows, gives tokens to waiting writers |
//! | `collie-flush` | [`flusher`](crate::flush::flusher::flusher): flushes families to the LSM levels, releases log |
//! | `collie-free` | [`freer`]: frees the rows of a dropped family when there is one |
//! | `collie-scrub` | [`scrubber`](crate::flush::scrub::scrubber): reads tables of the LSM levels, rewrites rotten trees |

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use collie_obs::{Source, work_for};
use parking_lot::{Condvar, Mutex};

use crate::shared::Shared;

/// The pause before the first round of any thread.
const FIRST: Duration = Duration::from_millis(2);
/// The longest pause of the collector after rounds without work, unless its interval with work is longer.
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

/// The pause of the freeing thread, which is woken for each dropped family.
const IDLE: Duration = Duration::from_secs(60);

/// Returns the rounds of the thread that frees families.
pub(crate) fn freer() -> impl FnMut(&Shared) -> Duration + Send {
    |shared| if shared.free_next() { Duration::ZERO } else { IDLE }
}

#[derive(Debug, Default)]
struct Told {
    stop: bool,
    /// There is work for the next round, which perhaps came during the current one.
    wake: bool,
}

#[derive(Debug, Default)]
struct Signal {
    told: Mutex<Told>,
    changed: Condvar,
}

/// The running thread. Dropping the handle stops the thread after its current round.
#[derive(Debug)]
pub(crate) struct Background {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts a thread over a database that the thread does not keep alive. Each round returns the pause after it.
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
                let _scope = source_of(&shared).map(work_for);
                pause = round(&shared);
            }
        })?;
        Ok(Self { signal, thread: Some(thread) })
    }

    /// Makes the next round begin at once.
    pub(crate) fn wake(&self) {
        self.signal.told.lock().wake = true;
        self.signal.changed.notify_all();
    }
}

/// Returns the source that samples of background work have, if it is not the default: a replica's is part of replay.
pub(crate) fn source_of(shared: &Shared) -> Option<Source> {
    shared.txns.log().followed().is_some().then_some(Source::Apply)
}

impl Drop for Background {
    fn drop(&mut self) {
        self.signal.told.lock().stop = true;
        self.signal.changed.notify_all();
        // The thread drops this handle itself when it held the database last; it ends right after that.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "background_tests.rs"]
mod tests;
