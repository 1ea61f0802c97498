//! `Owner`: the threads of a log and its end. The handles of a log share it; dropping the last one closes the log as
//! well as it can.

use std::{sync::Arc, thread::JoinHandle, time::Duration};

use parking_lot::Mutex;

use crate::{Mark, WalError, append::State, append::ring_file::RingFile, core::Core, flush::Purpose};

/// How long a close that meets an in-flight flush sleeps before it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Stops the threads when the last `Log` is dropped.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Owner {
    pub(crate) fn new(core: Core) -> Self {
        Self { core: Arc::new(core), threads: Mutex::new(Vec::new()) }
    }

    /// Starts the background flusher, the preparer, and, with several copies, the thread that watches them.
    pub(crate) fn start_threads(&self) -> Result<(), WalError> {
        self.spawn("wal-flusher", |core| core.flusher.run_background())?;
        self.spawn("wal-preparer", |core| {
            core.flusher.segments.run_preparer(|| {
                core.flusher.refresh_full();
                core.flusher.look_for_stalls();
            });
        })?;
        if let Some(mirror) = &self.core.mirror {
            let core = self.core.clone();
            let started = mirror.start_watch(move || {
                core.flusher.link_copies();
                core.flusher.tell();
            });
            started.map_err(|source| WalError::io("start a thread for", &self.core.dir, source))?;
        }
        Ok(())
    }

    fn spawn(&self, name: &str, run: fn(&Core)) -> Result<(), WalError> {
        let core = self.core.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&core));
        let thread = thread.map_err(|source| WalError::io("start a thread for", &self.core.dir, source))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Stops all threads and frees the directory; if `orderly`, first flushes and writes the closing frame.
    pub(crate) fn close(&self, orderly: bool) -> Result<(), WalError> {
        let flusher = &self.core.flusher;
        flusher.reserve.stop(State::Closed);
        let outcome = if orderly { self.finish() } else { Ok(()) };
        flusher.end(State::Closed);
        // A later flush sees that the log is closed.
        flusher.wait_for_flush();
        flusher.queue.lock().stop = true;
        flusher.background_poked.notify_one();
        flusher.segments.stop();
        let me = std::thread::current().id();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A waker may drop the last handle on the background flusher itself, which cannot join itself: it ends by
            // itself.
            if thread.thread().id() != me && thread.join().is_err() {
                return Err(WalError::Poisoned { durable: flusher.mark(Mark::Durable) });
            }
        }
        let stored = self.core.consumers.close(&flusher.segments, orderly);
        if let Some(mirror) = &self.core.mirror {
            mirror.stop();
        }
        // Last, so that another owner opens the directory only when no thread of this one writes there.
        self.core.locks.lock().clear();
        flusher.tell();
        outcome.and(stored)
    }

    /// Flushes and writes the closing frame, once.
    fn finish(&self) -> Result<(), WalError> {
        let flusher = &self.core.flusher;
        if flusher.queue.lock().state == State::Closed {
            return Ok(());
        }
        // Nothing is reserved any more, so this covers every record.
        flusher.wait(Mark::Durable, flusher.reserve.next())?;
        loop {
            let permit = flusher.begin(&mut flusher.queue.lock(), Purpose::Close);
            match permit {
                Some(permit) => {
                    flusher.flush(permit)?;
                    // A file that stays does no harm: the next open sees the closing frame.
                    let _removed = self.core.home.file().map(RingFile::remove);
                    return Ok(());
                }
                None if flusher.queue.lock().state != State::Open => {
                    return Err(flusher.refusal(State::Poisoned));
                }
                // Only a flush without data can be in flight now: it ends by itself, as late as the disk answers.
                None => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // No handle is left that could receive the error; the next open recovers.
        let _best_effort = self.close(true);
    }
}
