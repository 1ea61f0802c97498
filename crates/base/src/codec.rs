//! Little-endian integers, varints and length-prefixed bytes: a checked reader and plain writers.
//!
//! A reader never panics and never allocates: it returns slices of its input.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;

/// An error: the bytes end before the value does, or the value is not in its one valid form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The kind of value that was being read.
    pub what: &'static str,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed bytes: {}", self.what)
    }
}

impl std::error::Error for DecodeError {}

/// Reads values from the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! little_endian {
    ($($name:ident: $type:ty),*) => {$(
        #[doc = concat!("Reads a little-endian `", stringify!($type), "`.\n\n# Errors\n[`DecodeError`] when fewer bytes are left.")]
        #[inline]
        pub fn $name(&mut self) -> Result<$type, DecodeError> {
            let (head, rest) = self.rest.split_first_chunk().ok_or(DecodeError { what: stringify!($type) })?;
            self.rest = rest;
            Ok(<$type>::from_le_bytes(*head))
        }
    )*};
}

impl<'a> Reader<'a> {
    /// Returns a reader at the front of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    little_endian!(u8: u8, u16: u16, u32: u32, u64: u64, u128: u128, i64: i64);

    /// Returns the bytes that are not read yet.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns whether all bytes are read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads `count` bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if fewer bytes remain.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(DecodeError { what: "bytes" })?;
        self.rest = rest;
        Ok(head)
    }

    /// Reads an unsigned LEB128 integer of at most 10 bytes in its shortest form.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut off, too long, too large, or not in its shortest form.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        match self.rest.split_first() {
            // One byte holds most lengths and counts.
            Some((byte, rest)) if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let bad = DecodeError { what: "varint" };
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.u8().map_err(|_| bad)?;
            let bits = u64::from(byte & 0x7F);
            let placed = bits.checked_shl(shift).filter(|p| p.checked_shr(shift) == Some(bits)).ok_or(bad)?;
            value |= placed;
            if byte & 0x80 == 0 {
                return if byte == 0 && shift > 0 { Err(bad) } else { Ok(value) };
            }
        }
        Err(bad)
    }

    /// Reads bytes that are preceded by their count as a varint.
    ///
    /// # Errors
    /// [`DecodeError`] if the count is malformed or exceeds the remaining bytes.
    pub fn length_prefixed(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = usize::try_from(self.varint()?).map_err(|_| DecodeError { what: "length" })?;
        self.bytes(count)
    }

    /// Ends reading.
    ///
    /// # Errors
    /// [`DecodeError`] if bytes remain.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError { what: "bytes after the end" }) }
    }
}

/// Appends `value` as unsigned LEB128, 1 to 10 bytes.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low & 0x7F);
        }
        out.push(low | 0x80);
    }
}

/// Returns the number of bytes that [`put_varint`] appends for `value`.
pub const fn varint_len(value: u64) -> usize {
    let mut len = 1;
    let mut rest = value >> 7;
    while rest > 0 {
        len = usize::saturating_add(len, 1);
        rest >>= 7;
    }
    len
}

/// Appends the count of `bytes` as a varint, then the bytes.
pub fn put_length_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    let count = u64::try_from(bytes.len()).expect("a slice is shorter than 2^64 bytes");
    put_varint(out, count);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Goal: reading inverts writing. Method: random values are written and read back.
        #[test]
        fn varint_and_bytes_round_trip(value: u64, bytes: Vec<u8>) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_len(value));
            put_length_prefixed(&mut out, &bytes);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert_eq!(reader.length_prefixed(), Ok(&bytes[..]));
            prop_assert_eq!(reader.finish(), Ok(()));
        }

        /// Goal: garbage never causes a panic, and a value has one form. Method: random bytes are decoded, encoded
        /// again and compared.
        #[test]
        fn varint_of_garbage_is_refused_or_canonical(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            if let Ok(value) = reader.varint() {
                let mut again = Vec::new();
                put_varint(&mut again, value);
                prop_assert!(bytes.starts_with(&again));
            }
        }
    }
}
