//! Epoch reclamation: an unlinked object is freed once every pin taken before it was unlinked is gone.
//!
//! A thin wrapper of crossbeam-epoch, the collector that the index crates use too, so that rows, versions and index
//! nodes have one collector. Invisible to loom: crossbeam's own words stay standard atomics in a model.
//!
//! # Rules
//! - E1. Take the pin before the first load that leads to the object, and keep it until the last use.
//! - E2. Never hold a pin over a wait, a flush or an await, or for the lifetime of a cursor: it stops all freeing.
//! - E3. Retire an object once, by the thread that made it unreachable for pins taken from then on.

pub use crossbeam_epoch::{Atomic, Guard, Owned, Shared, pin};

/// Frees `object` once no pin is left that might see it.
///
/// # Safety
/// `object` came from `Box::into_raw`, is unreachable for pins taken from now on, and is retired only here (E3).
/// `T` may be dropped on another thread.
pub unsafe fn retire_box<T: Send + 'static>(guard: &Guard, object: *mut T) {
    let address = SendPtr(object);
    // SAFETY: the closure owns the only right to free `object` (E3) and runs after the last pin that may see it.
    unsafe {
        guard.defer_unchecked(move || {
            let address = address;
            drop(Box::from_raw(address.0));
        });
    }
}

struct SendPtr<T>(*mut T);

// SAFETY: the pointer is only turned back into a `Box<T>`, and `T: Send` wherever one is created.
unsafe impl<T: Send> Send for SendPtr<T> {}

#[cfg(test)]
#[cfg(not(loom))]
pub(crate) mod tests {
    use super::*;
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    /// Waits until retired objects are freed: epochs belong to the process, and a thread of any concurrent test may
    /// stay pinned for as long as a busy machine suspends it.
    pub(crate) fn until_freed(is_freed: impl Fn() -> bool) {
        for _ in 0..30_000 {
            if is_freed() {
                return;
            }
            pin().flush();
            std::thread::park_timeout(Duration::from_millis(1));
        }
        panic!("never freed");
    }

    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Goal: a retired object is freed once, after the pin. Method: count drops before and after unpinning and
    /// flushing.
    #[test]
    fn retired_box_is_freed_once_after_the_last_pin() {
        let drops = Arc::new(AtomicUsize::new(0));
        let object = Box::into_raw(Box::new(Counted(Arc::clone(&drops))));
        let guard = pin();
        // SAFETY: from Box::into_raw, known to no other code, retired once.
        unsafe { retire_box(&guard, object) };
        guard.flush();
        assert_eq!(drops.load(Ordering::Relaxed), 0);
        drop(guard);
        until_freed(|| drops.load(Ordering::Relaxed) == 1);
    }
}
