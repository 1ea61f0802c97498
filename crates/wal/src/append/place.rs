//! `Place`: where a shared value of the log lives: in the memory of this process, or in a ring that outlives it.
//!
//! # Invariants
//! - H1. `at` is valid and does not move during the lifetime of the place: it points into the place's own box or into a
//!   region that the place keeps mapped.
//! - H2. Only shared references to the value are made: changes happen inside it (atomics, cells).
//!
//! Checked by the tests of the log, which run on both kinds. Models use boxes only.

use std::{fmt, ops::Deref, ptr::NonNull, sync::Arc};

use collie_env::Region;

/// A value at a fixed address.
pub(crate) struct Place<T: ?Sized> {
    at: NonNull<T>,
    region: Option<Arc<Region>>,
}

// SAFETY: the place is the only owner of a `T` (the caller of `in_region` guarantees it).
unsafe impl<T: ?Sized + Send> Send for Place<T> {}
// SAFETY: H2.
unsafe impl<T: ?Sized + Sync> Sync for Place<T> {}

impl<T: ?Sized> Place<T> {
    /// Keeps `value` in this process.
    pub(crate) fn private(value: Box<T>) -> Self {
        Self { at: NonNull::from(Box::leak(value)), region: None }
    }

    /// Takes the value at `at`.
    ///
    /// # Safety
    /// `at` points to a valid `T` inside `region` that no other place has, and all of its bytes that ever change are
    /// atomics or cells.
    pub(crate) unsafe fn in_region(at: NonNull<T>, region: Arc<Region>) -> Self {
        Self { at, region: Some(region) }
    }
}

impl<T> Place<[T]> {
    /// Narrows to the first value of a slice in a region.
    ///
    /// # Panics
    /// If there is none, or if the slice was made by `private`.
    pub(crate) fn first(self) -> Place<T> {
        let region = self.region.clone().expect("made by `in_region`");
        assert!(!self.is_empty(), "one was placed");
        Place { at: self.at.cast(), region: Some(region) }
    }
}

impl<T: ?Sized> Deref for Place<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: H1, H2.
        unsafe { self.at.as_ref() }
    }
}

impl<T: ?Sized> Drop for Place<T> {
    fn drop(&mut self) {
        if self.region.is_none() {
            // SAFETY: leaked by `private`, and no borrow of it is left.
            drop(unsafe { Box::from_raw(self.at.as_ptr()) });
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Place<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
