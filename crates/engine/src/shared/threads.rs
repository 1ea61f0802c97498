//! `Threads`: the threads of an open database.
//!
//! Nothing visible depends on these threads except memory, the length of the log, and how long an opening takes.
//!
//! | thread | its rounds |
//! |---|---|
//! | `collie-gc` | [`collector`]: retires xids, moves the horizon, cleans rows, gives tokens to waiting writers |
//! | `collie-flush` | [`flusher`]: flushes families to the LSM levels, releases log |
//! | `collie-free` | [`freer`]: frees the rows of a dropped family when there is one |
//! | `collie-scrub` | [`scrubber`]: reads tables of the LSM levels, rewrites rotten trees |

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;
use std::time::Duration;

use collie_obs::{Source, work_for};
use parking_lot::Mutex;

use crate::EngineError;
use crate::background::Background;
use crate::shared::Shared;
pub(crate) use crate::shared::collecting::{collector, freer};
use crate::shared::flushing::flusher;
use crate::shared::scrubbing::scrubber;

/// See the module's documentation. A database without threads has none of them.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    collector: Mutex<Option<Background>>,
    flusher: Mutex<Option<Background>>,
    pub(crate) freer: Mutex<Option<Background>>,
    scrubber: Mutex<Option<Background>>,
}

impl Shared {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start_threads(self: &Arc<Self>) -> io::Result<()> {
        let threads = &self.threads;
        *threads.collector.lock() = Some(self.start("collie-gc", collector())?);
        *threads.flusher.lock() = Some(self.start("collie-flush", flusher())?);
        *threads.freer.lock() = Some(self.start("collie-free", freer())?);
        if self.scrub.is_on() {
            *threads.scrubber.lock() = Some(self.start("collie-scrub", scrubber())?);
        }
        Ok(())
    }

    fn start(
        self: &Arc<Self>,
        name: &str,
        mut round: impl FnMut(&Self) -> Duration + Send + 'static,
    ) -> io::Result<Background> {
        Background::start(name, Arc::downgrade(self), move |shared: &Self| {
            let _scope = shared.sample_source().map(work_for);
            round(shared)
        })
    }

    /// Returns the source that samples of background work have, if it is not the default: a replica's is part of
    /// replay.
    pub(crate) fn sample_source(&self) -> Option<Source> {
        self.txns.log().followed().is_some().then_some(Source::Apply)
    }

    /// Stops the threads, writes everything out and closes the log; see [`Db::close`](crate::Db::close).
    pub(crate) fn close(&self) -> Result<(), EngineError> {
        if self.closed.swap(true, Release) {
            return Ok(());
        }
        self.pause.end();
        self.room.close(self.durable(), self.now());
        self.txns.log().replicas().into_iter().for_each(|settled| settled.close());
        // Each is taken out of its lock before it is stopped: its round may look for the others.
        let stop = |thread: &Mutex<Option<Background>>| drop(thread.lock().take());
        stop(&self.threads.scrubber);
        stop(&self.threads.flusher);
        stop(&self.threads.freer);
        self.dropped.wake();
        stop(&self.threads.collector);
        let flushed = self.flush_unlogged();
        let closed = self.txns.log().wal().map_or(Ok(()), collie_wal::Log::close);
        if let Some(leading) = self.mode.leading() {
            leading.place.release();
        }
        closed?;
        flushed
    }
}
