//! `Pin`: while one is held, nothing unlinked after it was taken is freed.
//!
//! The one collector of rows, versions and index nodes is `collie_sync::epoch`; this type hides it from callers, who only
//! hold a pin. It is held for one look-up or one batch, never over a wait. Under `cfg(loom)` nothing is freed: the models
//! look at order, not at memory.

use std::fmt;

#[cfg(not(loom))]
use collie_sync::epoch;

/// Holds back reclamation of what is unlinked from now on.
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
    /// Frees `pointer` once no pin taken before now is left.
    ///
    /// # Safety
    /// `pointer` came from `Box::into_raw`, can no longer be reached by anyone without an older pin, and is retired
    /// exactly once.
    pub(crate) unsafe fn retire<T: Send + 'static>(&self, pointer: *mut T) {
        #[cfg(not(loom))]
        // SAFETY: what the caller promises is what is asked.
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
