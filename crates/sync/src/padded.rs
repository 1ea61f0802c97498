//! `Padded`: a value alone on 128 bytes, so that writers of two such values never share a cache line.
//!
//! 128 rather than 64, since current x86 and Arm cores fetch lines in pairs.

use std::ops::{Deref, DerefMut};

/// A value aligned to, and alone on, 128 bytes, at their start.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Padded<T>(T);

impl<T> Padded<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

const _: () = assert!(align_of::<Padded<u64>>() == 128 && size_of::<Padded<u64>>() == 128);
