//! `Published`: one value that few threads replace and many read, each reader with one load.
//!
//! It is neither a lock nor a channel: a reader may continue with a value that was replaced since, but never sees a
//! partial one.
//!
//! # Invariants
//! - P1. The pointer leads to a value that is complete from before it was stored, and constant from then on.
//! - P2. A value is retired once, by the replacer that took its pointer out, and freed after the last pin that may see
//!   it.
//!
//! # Ordering
//! | store                     | pairs with               | carries                                           |
//! |---------------------------|--------------------------|---------------------------------------------------|
//! | `pointer` AcqRel, replace | `pointer` Acquire, read  | the value, and everything before its replacement  |
//!
//! # Progress
//! `read`, `replace`: wait-free. The collector (`epoch`) frees replaced values later.
//!
//! Under loom and shuttle nothing is freed: the models check order, not memory.

use crate::atomic::AtomicPtr;
use crate::ord;
use std::fmt;

/// A value that is read in place and replaced as a whole.
pub struct Published<T> {
    pointer: AtomicPtr<T>,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Creates it with `value`.
    pub fn new(value: T) -> Self {
        Self { pointer: AtomicPtr::new(Box::into_raw(Box::new(value))) }
    }

    /// Calls `look` with the value, under a pin: `look` must not wait.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        let _pin = crate::epoch::pin();
        // SAFETY: P1; taken after the pin, so by P2 the value outlives the call.
        let value = unsafe { &*self.pointer.load(ord!("PUBLISHED_LOAD", Acquire)) };
        look(value)
    }

    /// Replaces the current value by `value`.
    pub fn replace(&self, value: T) {
        let new = Box::into_raw(Box::new(value));
        let old = self.pointer.swap(new, ord!("PUBLISHED_SWAP", AcqRel));
        #[cfg(not(any(loom, shuttle)))]
        // SAFETY: P2: our swap took it out, so no other thread retires it and no pin from now on leads to it; boxed
        // above or in `new`.
        unsafe {
            crate::epoch::retire_box(&crate::epoch::pin(), old);
        }
        #[cfg(any(loom, shuttle))]
        let _ = old;
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        let last = self.pointer.load(crate::atomic::Ordering::Acquire);
        // SAFETY: boxed in `new` or `replace`; `self` is no longer shared, and readers' references ended with their
        // calls.
        drop(unsafe { Box::from_raw(last) });
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read(|value| f.debug_tuple("Published").field(value).finish())
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A pair of equal numbers that counts the existing pairs.
    struct Pair(u64, u64, Arc<AtomicUsize>);

    impl Drop for Pair {
        fn drop(&mut self) {
            self.2.fetch_sub(1, Relaxed);
        }
    }

    /// Goal: readers see complete values in order, and every value is freed once. Method: one thread replaces pairs of
    /// equal numbers while two read; at the end the remaining pairs are counted.
    #[test]
    fn readers_see_whole_values_and_every_value_is_freed_once() {
        let there = Arc::new(AtomicUsize::new(0));
        let pair = |number| {
            there.fetch_add(1, Relaxed);
            Pair(number, number, Arc::clone(&there))
        };
        let published = Published::new(pair(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < 2_000 {
                        let (a, b) = published.read(|pair| (pair.0, pair.1));
                        assert!(a == b && a >= last, "{a}, {b} after {last}");
                        last = a;
                    }
                });
            }
            (1..=2_000).for_each(|number| published.replace(pair(number)));
        });
        drop(published);
        crate::epoch::tests::until_freed(|| there.load(Relaxed) == 0);
    }
}

#[cfg(test)]
#[cfg(loom)]
mod models {
    use super::*;
    use crate::{UnsafeCell, model::check, thread};
    use std::sync::Arc;

    struct Watched(UnsafeCell<u8>);

    // SAFETY: the cell is only read, and loom checks that its creation happens before.
    unsafe impl Sync for Watched {}

    /// One thread replaces the value twice, another reads it.
    fn replacer_and_reader() {
        let published = Arc::new(Published::new(Watched(UnsafeCell::new(0))));
        let reader = thread::spawn({
            let published = Arc::clone(&published);
            move || [(); 2].map(|()| published.read(|value| value.0.with(|_complete| ())))
        });
        published.replace(Watched(UnsafeCell::new(1)));
        published.replace(Watched(UnsafeCell::new(2)));
        reader.join().expect("it ends");
    }

    /// Goal: a reader finds a complete value. Method: the value is a cell that loom watches; each ordering weakened.
    #[test]
    fn loom_published_value_is_complete() {
        const TORN: &str = "Causality violation";
        let mistakes = [("PUBLISHED_SWAP", 3, TORN), ("PUBLISHED_LOAD", 3, TORN)];
        check("published", replacer_and_reader, 3, 25, &mistakes);
    }
}
