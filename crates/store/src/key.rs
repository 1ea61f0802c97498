//! `Key`: a key that needs no allocation when it is short.
//!
//! Most keys are one or two encoded integers, and an ordered index compares keys on the way down: a key kept in
//! place costs no cache miss of its own. Two short keys are compared as three words, without a call: an index
//! larger than the caches compares some thirty keys per look-up.
//!
//! # Invariants
//! - K1. The bytes after a short key are zero. So short keys are ordered by their bytes including the zeros, and
//!   by their lengths where these are equal: then one key is the other followed by zeros, and the shorter one
//!   comes first. Checked by the test below.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

/// Longest key kept in place; with its length and the tag of the variant a `Key` takes three words.
const INLINE_BYTES: usize = 22;
const _: () = assert!(size_of::<Key>() == 24);

/// An owned key, compared bytewise.
#[derive(Clone)]
pub struct Key(Form);

#[derive(Clone)]
enum Form {
    Inline { len: u8, bytes: [u8; INLINE_BYTES] },
    Heap(Box<[u8]>),
}

impl Key {
    /// Copies `key`.
    pub fn new(key: &[u8]) -> Self {
        match u8::try_from(key.len()) {
            Ok(len) if key.len() <= INLINE_BYTES => {
                let mut bytes = [0; INLINE_BYTES];
                bytes[..key.len()].copy_from_slice(key);
                Self(Form::Inline { len, bytes })
            }
            _ => Self(Form::Heap(key.into())),
        }
    }

    /// Returns how many bytes it keeps on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Inline { .. } => 0,
            Form::Heap(bytes) => bytes.len(),
        }
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Form::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Form::Heap(bytes) => bytes,
        }
    }
}

/// A key to search for: a short one as a [`Key`], which compares fast, a long one by reference.
pub(crate) enum Probe<'a> {
    Short(Key),
    Long(&'a [u8]),
}

impl<'a> Probe<'a> {
    pub(crate) fn of(key: &'a [u8]) -> Self {
        if key.len() <= INLINE_BYTES { Self::Short(Key::new(key)) } else { Self::Long(key) }
    }
}

/// Compares two short keys (K1).
#[inline]
fn compare_short(one: &[u8; INLINE_BYTES], other: &[u8; INLINE_BYTES]) -> Ordering {
    let first = |bytes: &[u8; INLINE_BYTES]| bytes.first_chunk().map(|chunk| u128::from_be_bytes(*chunk));
    // The two chunks overlap, but the overlapping bytes are equal when this comparison decides.
    let last = |bytes: &[u8; INLINE_BYTES]| bytes.last_chunk().map(|chunk| u64::from_be_bytes(*chunk));
    first(one).cmp(&first(other)).then_with(|| last(one).cmp(&last(other)))
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Form::Inline { len, bytes }, Form::Inline { len: other_len, bytes: other }) => {
                compare_short(bytes, other).then(len.cmp(other_len))
            }
            _ => (**self).cmp(&**other),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", &**self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Goal: a key is its bytes, short or long. Method: bytes and order of random pairs around the inline length.
        #[test]
        fn key_keeps_bytes_and_bytewise_order(
            a in proptest::collection::vec(any::<u8>(), 0..30),
            b in proptest::collection::vec(any::<u8>(), 0..30),
        ) {
            check(&a, &b)?;
        }

        /// Goal: K1: zeros inside a key are not confused with the padding. Method: random pairs of keys of zeros
        /// and ones with a common beginning.
        #[test]
        fn keys_of_zeros_are_in_bytewise_order(
            both in proptest::collection::vec(0..2_u8, 0..25),
            a in proptest::collection::vec(0..2_u8, 0..4),
            b in proptest::collection::vec(0..2_u8, 0..4),
        ) {
            check(&[&both[..], &a].concat(), &[&both[..], &b].concat())?;
        }
    }

    fn check(a: &[u8], b: &[u8]) -> Result<(), TestCaseError> {
        let (one, other) = (Key::new(a), Key::new(b));
        prop_assert_eq!(&*one, a);
        prop_assert_eq!(one.cmp(&other), a.cmp(b));
        prop_assert_eq!(one == other, a == b);
        let found = match Probe::of(b) {
            Probe::Short(key) => one.cmp(&key),
            Probe::Long(key) => (*one).cmp(key),
        };
        prop_assert_eq!(found, a.cmp(b));
        Ok(())
    }
}
