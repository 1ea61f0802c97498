//! `Blocks`: the content of a simulated file, in 4 KiB blocks that clones share until one of them writes.
//!
//! # What always holds
//! - B1. Bytes at or behind `len` read as zeros, also inside the last block.
//! - B2. An absent block is a block of zeros. A whole block of zeros that is written becomes absent.
//! - B3. A clone costs two reference counts, whatever the length.

use std::sync::Arc;

/// The unit that a power cut keeps or drops; only a torn sector is kept in part.
pub(crate) const SECTOR: usize = 512;
/// The unit that clones share.
pub(crate) const BLOCK: usize = 4096;
/// Sectors per block.
pub(crate) const SECTORS: usize = BLOCK / SECTOR;

/// One block; `None` is zeros (B2).
pub(crate) type Block = Option<Arc<[u8; BLOCK]>>;

static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Returns the bytes of a block.
pub(crate) fn bytes_of(block: &Block) -> &[u8; BLOCK] {
    block.as_deref().unwrap_or(&ZEROS)
}

/// Returns one sector of a block.
pub(crate) fn sector_of(block: &Block, sector: usize) -> &[u8] {
    &bytes_of(block)[sector * SECTOR..(sector + 1) * SECTOR]
}

/// A file's content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    blocks: Arc<Vec<Block>>,
    len: usize,
}

impl Blocks {
    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the block with number `at`; behind the end it is all zeros.
    pub(crate) fn block(&self, at: usize) -> &Block {
        self.blocks.get(at).unwrap_or(&None)
    }

    /// Truncates, or grows with zeros; everything behind the end reads as zeros afterwards (B1).
    pub(crate) fn set_len(&mut self, len: usize) {
        self.len = len;
        let (whole, within) = (len.div_ceil(BLOCK), len % BLOCK);
        if self.blocks.len() > whole {
            Arc::make_mut(&mut self.blocks).truncate(whole);
        }
        if within > 0 && bytes_of(self.block(whole - 1))[within..] != ZEROS[within..] {
            self.change(whole - 1)[within..].fill(0);
        }
    }

    /// Replaces the block with number `at`. The caller sets the length afterwards (B1).
    pub(crate) fn put(&mut self, at: usize, block: Block) {
        let blocks = Arc::make_mut(&mut self.blocks);
        if blocks.len() <= at {
            blocks.resize(at + 1, None);
        }
        blocks[at] = block;
    }

    /// Returns the block with number `at` for changes in place. The caller sets the length afterwards (B1).
    pub(crate) fn change(&mut self, at: usize) -> &mut [u8; BLOCK] {
        let blocks = Arc::make_mut(&mut self.blocks);
        if blocks.len() <= at {
            blocks.resize(at + 1, None);
        }
        Arc::make_mut(blocks[at].get_or_insert_with(|| Arc::new(ZEROS)))
    }

    /// Writes `bytes` at `offset`, growing the content.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.len = self.len.max(offset + bytes.len());
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (block, within) = (at / BLOCK, at % BLOCK);
            let (piece, behind) = rest.split_at(rest.len().min(BLOCK - within));
            if piece == ZEROS {
                self.put(block, None);
            } else {
                self.change(block)[within..within + piece.len()].copy_from_slice(piece);
            }
            (at, rest) = (at + piece.len(), behind);
        }
    }

    /// Reads from `offset` until `bytes` is full or the content ends; returns the number of bytes read.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) -> usize {
        let count = bytes.len().min(self.len.saturating_sub(offset));
        let mut done = 0;
        while done < count {
            let (block, within) = ((offset + done) / BLOCK, (offset + done) % BLOCK);
            let piece = (count - done).min(BLOCK - within);
            bytes[done..done + piece].copy_from_slice(&bytes_of(self.block(block))[within..within + piece]);
            done += piece;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: blocks behave as one vector of bytes, and a clone keeps its content. Method: random writes,
        /// truncations and reads, compared with a vector; a clone taken half way is compared at the end.
        #[test]
        fn blocks_are_a_vector_of_bytes_and_clones_keep_theirs(
            steps in proptest::collection::vec((0_usize..20_000, 0_usize..9_000, any::<u8>(), any::<bool>()), 1..20)
        ) {
            let (mut blocks, mut model) = (Blocks::default(), Vec::new());
            let mut kept = None;
            for (number, (offset, len, fill, cut)) in steps.iter().enumerate() {
                if *cut {
                    blocks.set_len(*offset);
                    model.resize(*offset, 0);
                } else {
                    let fill = if fill % 3 == 0 { 0 } else { *fill };
                    if model.len() < offset + len {
                        model.resize(offset + len, 0);
                    }
                    model[*offset..offset + len].fill(fill);
                    blocks.write(*offset, &vec![fill; *len]);
                }
                if number == steps.len() / 2 {
                    kept = Some((blocks.clone(), model.clone()));
                }
            }
            for (blocks, model) in [Some((blocks, model)), kept].into_iter().flatten() {
                let mut read = vec![1; model.len() + 10];
                prop_assert_eq!(blocks.len(), model.len());
                prop_assert_eq!(blocks.read(0, &mut read), model.len());
                prop_assert_eq!(&read[..model.len()], &model[..]);
            }
        }
    }
}
