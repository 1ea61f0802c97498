//! `Bell`: blocks a thread of a model until its waker is called. Unlike the parking of a thread it never wakes
//! spuriously, so that a model that loses a wake-up ends in a deadlock that the checker sees.

use std::task::Wake;

use collie_sync::{Condvar, Mutex};

/// A bell, at first not rung.
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
    /// Blocks until the waker has been called since the last wait.
    pub(super) fn wait(&self) {
        let mut rung = self.rung.lock();
        while !*rung {
            rung = self.ring.wait(rung);
        }
        *rung = false;
    }
}
