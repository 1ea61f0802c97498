//! `Lead`: the right to run one flush, for a caller that wants to flush on a thread that it chooses.

use std::sync::Arc;

use crate::{WalError, core::Core, flush::Right};

/// The right to run one flush; dropping it unused gives it back.
#[derive(Debug)]
#[must_use]
pub struct Lead {
    core: Arc<Core>,
    right: Option<Right>,
}

impl Lead {
    pub(crate) fn new(core: Arc<Core>, right: Right) -> Self {
        Self { core, right: Some(right) }
    }

    /// Writes and syncs everything gathered so far (up to one frame) and wakes the waiters.
    ///
    /// # Errors
    /// `Io`: a write or sync failed, writing to the next file failed too, and the log is poisoned. `Poisoned`,
    /// `Closed`: the log was in that state when this ran.
    ///
    /// # Durability
    /// The gathered records, up to one frame, survive a power cut.
    ///
    /// # Progress
    /// Blocks on the write and the sync, and on in-flight flushes that placed their frames before.
    pub fn run(mut self) -> Result<(), WalError> {
        let right = self.right.take().expect("taken here and in drop only");
        self.core.flusher.fly(right)
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if let Some(right) = self.right.take() {
            self.core.flusher.give_up(right);
        }
    }
}
