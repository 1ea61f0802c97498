//! `Key`: a key that needs no allocation when it is short.
//!
//! Most keys are an encoded integer or two, and an ordered index compares them all the way down: kept in place they cost
//! no cache miss of their own.

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

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
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
            prop_assert_eq!(&*Key::new(&a), &a[..]);
            prop_assert_eq!(Key::new(&a).cmp(&Key::new(&b)), a.cmp(&b));
        }
    }
}
