//! `Image`: the bytes of a disk, in memory. Blocks that were never written are zeros and need no memory; copies share
//! blocks until one of the copies is written.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path, sync::Arc};

/// The bytes of a block.
const BLOCK_BYTES: usize = 4096;

type Block = [u8; BLOCK_BYTES];

/// The bytes of a disk.
#[derive(Clone, Debug)]
pub(super) struct Image {
    blocks: Vec<Option<Arc<Block>>>,
}

impl Image {
    /// Returns a disk of zeros. `bytes` must be a multiple of the block size.
    pub(super) fn new(bytes: usize) -> Self {
        assert!(bytes.is_multiple_of(BLOCK_BYTES), "a disk is whole blocks");
        Self { blocks: vec![None; bytes / BLOCK_BYTES] }
    }

    /// Returns the size in bytes.
    pub(super) fn len(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// Returns up to `bytes` bytes from `offset`; fewer at the end.
    pub(super) fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let end = self.len().min(offset.saturating_add(bytes));
        let mut found = Vec::with_capacity(end.saturating_sub(offset));
        let mut at = offset;
        while at < end {
            let (block, within) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
            let count = (BLOCK_BYTES - within).min(end - at);
            match &self.blocks[block] {
                Some(block) => found.extend_from_slice(&block[within..within + count]),
                None => found.resize(found.len() + count, 0),
            }
            at += count;
        }
        found
    }

    /// Writes at `offset`; bytes beyond the end are dropped.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(self.len().saturating_sub(offset))];
        let mut done = 0;
        while done < bytes.len() {
            let (block, within) = ((offset + done) / BLOCK_BYTES, (offset + done) % BLOCK_BYTES);
            let count = (BLOCK_BYTES - within).min(bytes.len() - done);
            let part = &bytes[done..done + count];
            done += count;
            if self.blocks[block].is_none() && part.iter().all(|byte| *byte == 0) {
                continue;
            }
            let shared = self.blocks[block].get_or_insert_with(|| Arc::new([0; BLOCK_BYTES]));
            Arc::make_mut(shared)[within..within + count].copy_from_slice(part);
        }
    }

    /// Saves the content as a sparse file.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.len() as u64)?;
        let blocks = self.blocks.iter().zip(0_u64..).filter_map(|(block, at)| Some((block.as_ref()?, at)));
        for (block, at) in blocks {
            file.write_all_at(&**block, at * BLOCK_BYTES as u64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: written bytes are read back, across block borders and at the end; a copy does not change. Method: each.
    #[test]
    fn image_holds_what_is_written_and_a_copy_stays_as_it_was() {
        let mut image = Image::new(3 * BLOCK_BYTES);
        let bytes: Vec<u8> = (0..6000_usize).map(|at| at.to_le_bytes()[0]).collect();
        image.write(100, &bytes);
        let copy = image.clone();
        image.write(0, &[7; 200]);
        assert_eq!(copy.read(100, 6000), bytes);
        assert_eq!(copy.read(0, 100), [0; 100]);
        assert_eq!(image.read(0, 200), [7; 200]);
        assert_eq!(image.read(200, 5900), bytes[100..]);
        image.write(image.len() - 2, &[1, 2, 3]);
        assert_eq!(image.read(image.len() - 2, 10), [1, 2]);
        assert!(image.read(image.len(), 10).is_empty());
    }
}
