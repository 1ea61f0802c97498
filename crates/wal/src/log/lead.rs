//! `Lead`: the permit to run one flush, for a caller that wants to flush on a thread that it chooses.

use std::sync::Arc;

use crate::{WalError, core::Core, flush::Permit};

/// The permit to run one flush; dropping it unused gives it back.
#[derive(Debug)]
#[must_use]
pub struct Lead {
    core: Arc<Core>,
    permit: Option<Permit>,
}

impl Lead {
    pub(crate) fn new(core: Arc<Core>, permit: Permit) -> Self {
        Self { core, permit: Some(permit) }
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
    /// Blocks on the write and the sync.
    pub fn run(mut self) -> Result<(), WalError> {
        let permit = self.permit.take().expect("taken here and in drop only");
        self.core.flusher.flush(permit)
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.core.flusher.give_back(permit);
        }
    }
}
