//! `Flusher`: the thread that flushes families when it is time, and gives up log.
//!
//! | trigger | what is flushed |
//! |---|---|
//! | a family has `store.write_buffer_size` bytes of unflushed rows | that family |
//! | the log that is kept is longer than `wal.max_total_wal_size` | the family that needs its oldest part, one at a time |
//! | old versions take up more memory than they may | every family: a deleted row stays until its deletion is flushed |
//!
//! Nothing visible depends on it except memory, the length of the log, and how long an open takes. After a failure it waits
//! before it tries again, longer each time; commits go on meanwhile.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::shared::Shared;

/// Between two looks at what is due, when nothing was.
const LOOK: Duration = Duration::from_millis(50);
/// After the first failure.
const BACK_OFF_MIN: Duration = Duration::from_millis(200);
/// After many.
const BACK_OFF_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Signal {
    stop: Mutex<bool>,
    changed: Condvar,
}

/// The running thread. Dropping it waits for the job it is at.
#[derive(Debug)]
pub(crate) struct Flusher {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts the thread over a database that it does not keep alive.
    pub(crate) fn start(shared: Weak<Shared>) -> std::io::Result<Self> {
        let signal = Arc::new(Signal::default());
        let heard = Arc::clone(&signal);
        let thread = std::thread::Builder::new().name("collie-flush".to_owned()).spawn(move || {
            let (mut pause, mut back_off) = (LOOK, BACK_OFF_MIN);
            loop {
                let mut stop = heard.stop.lock();
                if !*stop {
                    heard.changed.wait_for(&mut stop, pause);
                }
                if *stop {
                    return;
                }
                drop(stop);
                let Some(shared) = shared.upgrade() else { return };
                match shared.flush_due() {
                    Ok(true) => (pause, back_off) = (Duration::ZERO, BACK_OFF_MIN),
                    Ok(false) => (pause, back_off) = (LOOK, BACK_OFF_MIN),
                    Err(_counted) => (pause, back_off) = (back_off, (back_off * 2).min(BACK_OFF_MAX)),
                }
            }
        })?;
        Ok(Self { signal, thread: Some(thread) })
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        *self.signal.stop.lock() = true;
        self.signal.changed.notify_all();
        // The thread itself drops the database when it held it last; it ends right after.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}
