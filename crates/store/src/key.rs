//! `Key`: a key that needs no allocation when it is short.
//!
//! Most keys are an encoded integer or two, and an ordered index compares them all the way down: kept in place they cost
//! no cache miss of their own. Two short ones are compared as three words, without a call: an index that is out of the caches
//! compares some thirty keys for each look-up.
//!
//! # Invariants
//! - K1. Behind a short key's bytes there are zeros. So short keys are in the order of their bytes with the zeros, and of their lengths
//!   where these are equal: then one is the other with zeros behind it, and the shorter one comes first. Checked by the test below.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

/// Longest key kept in place; with its length and the variant's mark a `Key` takes three words.
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

    /// Returns how many bytes it keeps outside of itself.
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

/// A key to look for: a short one as a [`Key`], since those are compared fast, a long one where it is.
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
    // Some bytes twice: they are equal then.
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

        /// Goal: K1: zeros that a key has are not those behind it. Method: random pairs of zeros and ones that begin alike.
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
