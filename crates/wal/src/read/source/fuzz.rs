//! The reader of segments as a function of bytes, for fuzzing: all sources must agree.

use std::{io, path::Path, sync::Arc};

use collie_base::Lsn;
use collie_env::File;

use super::{FrameSource, MappedSegment, part_of};
use crate::{
    WalError,
    format::BLOCK_BYTES,
    read::assemble::{Assembler, Place},
    read::window::Window,
};

/// Bytes in memory, from the first byte of the segment on.
impl FrameSource for &[u8] {
    fn bytes_at(&mut self, offset: u64, len: usize) -> Result<&[u8], WalError> {
        Ok(self.held(offset, len))
    }

    fn held(&self, offset: u64, len: usize) -> &[u8] {
        part_of(self, 0, offset, len)
    }
}

/// Reads `data` as a segment file through every source, as readers do, and returns the number of records in it. For
/// fuzzing: it must return for any input, and all sources must see the same frames (N1).
pub fn fuzz_reader(data: &[u8]) -> usize {
    const NAME: &str = "/segment";
    let file = Arc::new(InMemory(data.to_vec()));
    // SAFETY: no thread writes to this file.
    let mapping = unsafe { file.map(data.len() as u64) };
    let mut mapped = MappedSegment(mapping.expect("the file is that long"));
    let mut window = Window::of(file, NAME.into()).expect("the file has a length");
    let _header = window.segment_header().expect("memory reads");
    let (mut assembler, mut yielded, mut at) = (Assembler::new(Lsn::ZERO, 1 << 20), 0, 0);
    while at < data.len() as u64 {
        let mut whole = data;
        let mut sources: [&mut dyn FrameSource; 3] = [&mut whole, &mut window, &mut mapped];
        let [found, again @ ..] =
            sources.each_mut().map(|source| source.frame_at(at, None).expect("memory does not fail"));
        for other in again {
            match (&found, &other) {
                (Ok(frame), Ok(other)) => {
                    assert_eq!((frame.header, frame.crc, frame.payload), (other.header, other.crc, other.payload));
                }
                _ => assert_eq!(found.as_ref().err(), other.as_ref().err(), "at {at}"),
            }
        }
        let Ok(frame) = found else {
            at += BLOCK_BYTES;
            continue;
        };
        at = frame.next_offset;
        let place = Place { path: Arc::from(Path::new(NAME)), offset: at };
        // A payload that is not whole records yields the records before the bad one.
        let _damaged = assembler.take(&frame, &place, Lsn::MAX);
        yielded += std::iter::from_fn(|| assembler.next()).count();
    }
    yielded
}

/// A file for fuzzing: bytes that are only read.
#[derive(Debug)]
struct InMemory(Vec<u8>);

impl File for InMemory {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let part = part_of(&self.0, 0, offset, bytes.len());
        bytes[..part.len()].copy_from_slice(part);
        Ok(part.len())
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}
