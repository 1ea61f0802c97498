//! `Background`: a thread of the engine that works in rounds with a pause after each, as long as its database is
//! open.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The pause before the first round of any thread.
const FIRST: Duration = Duration::from_millis(2);

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
    pub(crate) fn start<T: Send + Sync + 'static>(
        name: &str,
        database: Weak<T>,
        mut round: impl FnMut(&T) -> Duration + Send + 'static,
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
                let Some(database) = database.upgrade() else { return };
                pause = round(&database);
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
mod tests;
