//! `Recent`: the frames that were written last: where each ends in its file, and, while the log has a tail, the frames
//! themselves.
//!
//! A frame is kept once, behind a reference count, however many readers take it. Without a tail this costs only a few
//! words per flush.
//!
//! # Invariants
//! - E1. Frames lie in the order of their positions, do not overlap, and hold at most `wal.recent_size` bytes.
//! - E2. Every frame with records at or above `floor` that was written since is here: a reader at or above it finds the
//!   next frame here as soon as it is durable.
//! - E3. A frame is handed out only once it ends at or below `durable`. A frame that was written again elsewhere after
//!   a failure was never handed out, and is dropped when its copy comes.
//!
//! Checked by `tests/tail.rs` (small bounds, laggards) and the unit tests below.

use std::{collections::VecDeque, path::Path, sync::Arc};

use collie_base::Lsn;
use parking_lot::Mutex;

use crate::read::frame_reader::End;
use crate::{
    WalError,
    format::LINK_HEADER,
    read::assemble::Place,
    read::source::{FrameSource, part_of},
};

/// A frame in memory, as it lies in its file.
#[derive(Debug)]
pub(crate) struct HeldFrame {
    pub(crate) start: Lsn,
    pub(crate) end: Lsn,
    pub(crate) place: Place,
    /// Where the next frame is in the file.
    pub(crate) next_offset: u64,
    bytes: Box<[u8]>,
}

impl FrameSource for &HeldFrame {
    fn bytes_at(&mut self, offset: u64, len: usize) -> Result<&[u8], WalError> {
        Ok(self.held(offset, len))
    }

    fn held(&self, offset: u64, len: usize) -> &[u8] {
        part_of(&self.bytes, self.place.offset, offset, len)
    }
}

/// A frame that was just written.
#[derive(Debug)]
pub(crate) struct Wrote<'a> {
    pub(crate) start: Lsn,
    pub(crate) end: Lsn,
    pub(crate) path: &'a Path,
    pub(crate) next_offset: u64,
    /// Header, payload and padding.
    pub(crate) bytes: &'a [u8],
}

#[derive(Debug)]
struct Inner {
    readers: usize,
    frames: VecDeque<Arc<HeldFrame>>,
    held_bytes: u64,
    /// E2; `MAX` while nothing is kept.
    floor: Lsn,
    /// Ends of frames, lowest first; the first one, and only this one, is at or below `durable`.
    ends: VecDeque<End>,
}

/// The frames written last.
#[derive(Debug)]
pub(crate) struct Recent {
    limit_bytes: u64,
    inner: Mutex<Inner>,
}

impl Recent {
    /// Starts behind the records on disk, which reach to `end`, in `path` up to `offset`.
    pub(crate) fn new(limit_bytes: u64, end: Lsn, path: &Path, offset: u64) -> Self {
        let ends = VecDeque::from([End { start: end, lsn: end, path: Arc::from(path), offset }]);
        let inner = Inner { readers: 0, frames: VecDeque::new(), held_bytes: 0, floor: Lsn::MAX, ends };
        Self { limit_bytes, inner: Mutex::new(inner) }
    }

    /// Begins to keep frames, until [`Recent::detach`] has been called as often.
    pub(crate) fn attach(&self) {
        self.inner.lock().readers += 1;
    }

    /// Ends one [`Recent::attach`]; the last one drops the frames.
    pub(crate) fn detach(&self) {
        let mut inner = self.inner.lock();
        inner.readers -= 1;
        if inner.readers == 0 {
            (inner.frames, inner.held_bytes, inner.floor) = (VecDeque::new(), 0, Lsn::MAX);
        }
    }

    /// Takes note of a frame that a flush has written; everything below `durable` is on disk by now.
    pub(crate) fn wrote(&self, frame: &Wrote<'_>, durable: Lsn) {
        if frame.start == frame.end {
            return;
        }
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        // E3, and the same for the ends: entries that overlap the frame are being written again.
        let from = inner.ends.partition_point(|end| end.lsn <= frame.start);
        let to = inner.ends.partition_point(|end| end.start < frame.end);
        inner.ends.drain(from..to.max(from));
        let held_path = inner.ends.back().map(|end| &end.path).filter(|path| ***path == *frame.path);
        let path = held_path.cloned().unwrap_or_else(|| Arc::from(frame.path));
        let end = End { start: frame.start, lsn: frame.end, path: path.clone(), offset: frame.next_offset };
        inner.ends.insert(from, end);
        while inner.ends.get(1).is_some_and(|second| second.lsn <= durable) {
            inner.ends.pop_front();
        }
        if inner.readers == 0 || self.limit_bytes == 0 {
            return;
        }
        if inner.floor == Lsn::MAX {
            inner.floor = frame.start;
        }
        // By E1 these are adjacent: a look at all of them would cost a small commit more than its flush.
        let from = inner.frames.partition_point(|held| held.end <= frame.start);
        let to = inner.frames.partition_point(|held| held.start < frame.end);
        let replaced = inner.frames.drain(from..to.max(from));
        inner.held_bytes -= replaced.map(|held| held.bytes.len() as u64).sum::<u64>();
        if frame.start < inner.floor {
            // Written before keeping began, by a slower flush.
            return;
        }
        let place = Place { path, offset: frame.next_offset - frame.bytes.len() as u64 };
        let (start, end, next_offset) = (frame.start, frame.end, frame.next_offset);
        // Without most of the padding, which is never read.
        let useful = usize::try_from(end.bytes_since(start)).expect("a frame fits memory") + LINK_HEADER;
        let bytes: Box<[u8]> = frame.bytes.get(..useful).unwrap_or(frame.bytes).into();
        inner.held_bytes += bytes.len() as u64;
        inner.frames.insert(from, Arc::new(HeldFrame { start, end, place, next_offset, bytes }));
        while inner.held_bytes > self.limit_bytes {
            let Some(oldest) = inner.frames.pop_front() else { break };
            inner.held_bytes -= oldest.bytes.len() as u64;
            inner.floor = oldest.end;
        }
    }

    /// Takes note that everything above the durable end was written again elsewhere and is now durable to `end`, in
    /// `path` up to `next_offset`. The frames that failed do not count where they were written, so none is kept.
    pub(crate) fn written_elsewhere(&self, end: Lsn, path: &Path, next_offset: u64) {
        let mut inner = self.inner.lock();
        (inner.frames, inner.held_bytes, inner.floor) = (VecDeque::new(), 0, Lsn::MAX);
        inner.ends = VecDeque::from([End { start: end, lsn: end, path: Arc::from(path), offset: next_offset }]);
    }

    /// Returns the frame that holds the record at `position`, if it is here and all of it lies below `durable`.
    pub(crate) fn at(&self, position: Lsn, durable: Lsn) -> Option<Arc<HeldFrame>> {
        let inner = self.inner.lock();
        if position < inner.floor {
            return None;
        }
        let at = inner.frames.partition_point(|frame| frame.end <= position);
        inner.frames.get(at).filter(|frame| frame.start <= position && frame.end <= durable).cloned()
    }

    /// Returns where the records below `durable` end on disk.
    pub(crate) fn durable_end(&self, durable: Lsn) -> End {
        let inner = self.inner.lock();
        let below = inner.ends.iter().take_while(|end| end.lsn <= durable).last();
        below.or(inner.ends.front()).cloned().expect("the first end stays until a durable one follows")
    }

    /// Returns the bytes of frames that are kept.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.inner.lock().held_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(recent: &Recent, start: u64, end: u64, offset: u64, durable: u64) {
        let (start, end) = (Lsn::new(start), Lsn::new(end));
        let bytes = [7; 100];
        let wrote = Wrote { start, end, path: "/wal/1".as_ref(), next_offset: offset + 100, bytes: &bytes };
        recent.wrote(&wrote, Lsn::new(durable));
    }

    fn range(recent: &Recent, position: u64, durable: u64) -> Option<(u64, u64)> {
        let found = recent.at(Lsn::new(position), Lsn::new(durable))?;
        Some((found.start.get(), found.end.get()))
    }

    /// Goal: frames are found by any position in them, only once durable, and the oldest are dropped at the bound (E1
    /// to E3). Method: five frames of 100 bytes under a bound of 300, with and without a reader.
    #[test]
    fn frames_are_found_once_durable_and_bounded() {
        let recent = Recent::new(300, Lsn::new(10), "/wal/1".as_ref(), 0);
        write(&recent, 10, 20, 0, 10);
        assert_eq!((range(&recent, 10, 99), recent.held_bytes()), (None, 0), "nobody reads");
        recent.attach();
        for at in 2..6_u64 {
            write(&recent, at * 10, at * 10 + 10, at * 100, at * 10);
        }
        assert_eq!(recent.held_bytes(), 300);
        assert_eq!(range(&recent, 29, 99), None, "evicted");
        assert_eq!(range(&recent, 30, 99), Some((30, 40)));
        assert_eq!(range(&recent, 39, 99), Some((30, 40)));
        assert_eq!(range(&recent, 50, 59), None, "not durable");
        assert_eq!(range(&recent, 50, 60), Some((50, 60)));
        assert_eq!(range(&recent, 60, 99), None, "not written");
        recent.detach();
        assert_eq!((range(&recent, 50, 60), recent.held_bytes()), (None, 0));
    }

    /// Goal: frames that several flushes write in any order are kept in order, and the end on disk is that of the
    /// durable prefix. Method: five frames, written 1, 3, 2, 5, 4.
    #[test]
    fn frames_written_in_any_order_lie_in_order() {
        let recent = Recent::new(1 << 20, Lsn::new(10), "/wal/1".as_ref(), 0);
        recent.attach();
        for start in [10, 30, 20, 50, 40] {
            write(&recent, start, start + 10, start * 10, 10);
        }
        for start in [10, 20, 30, 40, 50] {
            assert_eq!(range(&recent, start, 60), Some((start, start + 10)));
            assert_eq!(recent.durable_end(Lsn::new(start + 10)).offset, start * 10 + 100);
        }
        assert_eq!(range(&recent, 30, 30), None, "not durable");
        assert_eq!(recent.held_bytes(), 500);
    }

    /// Goal: frames written again elsewhere replace those that failed. Method: two that fail, then copies with other
    /// bounds.
    #[test]
    fn frames_written_again_replace_the_failed_ones() {
        let recent = Recent::new(1 << 20, Lsn::new(10), "/wal/1".as_ref(), 0);
        recent.attach();
        write(&recent, 10, 20, 0, 10);
        write(&recent, 20, 30, 100, 20);
        write(&recent, 30, 40, 200, 20);
        write(&recent, 20, 35, 900, 20);
        assert_eq!((range(&recent, 25, 40), range(&recent, 36, 40)), (Some((20, 35)), None));
        write(&recent, 35, 40, 1_000, 20);
        assert_eq!((range(&recent, 25, 40), range(&recent, 36, 40)), (Some((20, 35)), Some((35, 40))));
        assert_eq!(recent.held_bytes(), 300);
        let ends = [20, 34, 35, 40].map(|durable| recent.durable_end(Lsn::new(durable)).offset);
        assert_eq!(ends, [100, 100, 1_000, 1_100]);
    }
}
