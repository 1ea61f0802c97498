//! `Mapping`: the first bytes of a file as one slice, without a copy where the operating system can do that.
//!
//! A mapping is read-only. It is no snapshot: it shows the file itself, so its bytes are stable only while the
//! promise of its creator (M1) is kept.
//!
//! # What always holds
//! - M1. While a mapping lives, its bytes do not change and the file is not truncated below them: the caller of
//!   [`File::map`](crate::File::map) promised that. The log keeps this promise: it pins the segment, so that it is
//!   not reused (its `Consumers`), and maps only durable bytes, which are never written again.
//! - M2. A mapping is no longer than the file was when it was made.
//!
//! No promise covers another program that truncates the file. An access to the lost part then ends the process
//! (SIGBUS).
//!
//! Checked by the tests of `real_files` and of `collie-wal`.
#![allow(unsafe_code, reason = "the one place in this crate that maps memory")]

use std::{fs, io, ops::Deref};

use memmap2::{Advice, Mmap, MmapOptions};

/// The first bytes of a file, read-only. Dropping it unmaps them.
#[derive(Debug)]
pub struct Mapping(Bytes);

#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Copied(Box<[u8]>),
}

impl Mapping {
    /// Makes a mapping of bytes that were read, for files that cannot be mapped.
    pub fn of_copy(bytes: Vec<u8>) -> Self {
        Self(Bytes::Copied(bytes.into_boxed_slice()))
    }

    /// Maps the first `bytes` of `file` and advises the system that they will be read front to back.
    ///
    /// # Safety
    /// The caller keeps M1.
    pub(crate) unsafe fn of_file(file: &fs::File, bytes: u64) -> io::Result<Self> {
        if file.metadata()?.len() < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let len = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        if len == 0 {
            return Ok(Self::of_copy(Vec::new()));
        }
        // SAFETY: M2 by the length above; the caller promises M1, so these bytes are not written or truncated while
        // the mapping lives.
        let map = unsafe { MmapOptions::new().len(len).map(file)? };
        // This is a hint; without it reading is slower.
        let _hint = map.advise(Advice::Sequential);
        Ok(Self(Bytes::Mapped(map)))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Mapped(map) => map,
            Bytes::Copied(bytes) => bytes,
        }
    }
}
