//! `Bell`: blocks a thread of a model until its waker is called. Unlike a thread's own parking it never wakes for nothing,
//! so that a model which loses a wake-up ends in a deadlock that the checker sees.

use std::task::Wake;

use collie_sync::{Condvar, Mutex};

/// A bell that nobody has rung.
#[derive(Default)]
pub(super) struct Bell {
    rung: Mutex<bool>,
    ring: Condvar,
}

impl Wake for Bell {
    fn wake(self: std::sync::Arc<Self>) {
        *self.rung.lock() = true;
        self.ring.notify_one();
    }
}

impl Bell {
    /// Blocks until the waker was called since the last wait.
    pub(super) fn wait(&self) {
        let mut rung = self.rung.lock();
        while !*rung {
            rung = self.ring.wait(rung);
        }
        *rung = false;
    }
}
