//! `Pin`: while a pin is held, no memory that was unlinked after the pin was taken is freed.
//!
//! `collie_sync::epoch` is the one collector of rows, versions and index nodes. This type hides it from callers,
//! which only hold a pin, for one look-up or one batch, and never across a wait. Under `cfg(loom)` nothing is freed:
//! the models check ordering, not memory.

use std::fmt;

#[cfg(not(loom))]
use collie_sync::epoch;

/// Holds back the reclamation of memory that is unlinked from now on.
pub struct Pin {
    #[cfg(not(loom))]
    guard: epoch::Guard,
}

/// Takes a pin. Costs one store and one fence.
pub fn pin() -> Pin {
    Pin {
        #[cfg(not(loom))]
        guard: epoch::pin(),
    }
}

impl Pin {
    /// Frees `pointer` once every pin taken before this call is gone.
    ///
    /// # Safety
    /// `pointer` came from `Box::into_raw`, can no longer be reached without an older pin, and is retired exactly
    /// once.
    pub(crate) unsafe fn retire<T: Send + 'static>(&self, pointer: *mut T) {
        #[cfg(not(loom))]
        // SAFETY: our caller's contract is the one that `retire_box` requires.
        unsafe {
            epoch::retire_box(&self.guard, pointer);
        }
        #[cfg(loom)]
        let _ = pointer;
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pin")
    }
}
