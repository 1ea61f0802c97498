//! `Background`: the engine's one thread. It retires transaction ids, moves the horizon, and cleans rows.
//!
//! Nothing visible depends on it except memory: readers and writers are right without it.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::shared::Shared;

/// Between two rounds while there is work.
const TICK_MIN: Duration = Duration::from_millis(2);
/// Between two rounds after a long time without.
const TICK_MAX: Duration = Duration::from_millis(64);

#[derive(Debug, Default)]
struct Signal {
    stop: Mutex<bool>,
    changed: Condvar,
}

/// The running thread. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Background {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the thread over a database that it does not keep alive.
    pub(crate) fn start(shared: Weak<Shared>) -> std::io::Result<Self> {
        let signal = Arc::new(Signal::default());
        let heard = Arc::clone(&signal);
        let thread = std::thread::Builder::new().name("collie-gc".to_owned()).spawn(move || {
            let mut pause = TICK_MIN;
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
                pause = if shared.tick() > 0 { TICK_MIN } else { (pause * 2).min(TICK_MAX) };
            }
        })?;
        Ok(Self { signal, thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        *self.signal.stop.lock() = true;
        self.signal.changed.notify_all();
        // The thread itself drops the database when it held it last; it ends right after.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}
