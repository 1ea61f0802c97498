//! `ModelLog`: the appending half of the log without files, for models of code that is built on a log. It exists under
//! `--cfg loom` only.
//!
//! Positions, flags, ring, staging, boundary and the wait for it are the product's own. One word stands for the disk: a
//! flush determines how far the log is complete, and takes no time. A model checks orders, so records have no payload.

use std::{cell::Cell, sync::Arc, task::Waker};

use collie_base::Lsn;
use collie_sync::{
    atomic::{AtomicU64, Ordering},
    mutant,
};

use super::{Record, Reserve, Room, Rule, Slot, SlotAllocator, State, bell::Bell, help::Helping, slots::Slots};
use crate::{
    Appended, Protocol, WalError,
    append::ring::Ring,
    append::ring_file::Home,
    format::{KIND_DATA, RecordHead},
};

/// A record without payload: the smallest.
pub(super) const LEN: u64 = 2;
/// Room for all that a model appends, so that no thread waits for it.
const RING_BYTES: u64 = 16;

/// Returns the appending side with three slots, a ring and staging buffers of a few bytes.
pub(super) fn reserve(protocol: Protocol, next: Lsn, ring_bytes: u64, record_bytes_max: u64) -> Reserve {
    let rule = match protocol {
        Protocol::Mutex => unreachable!("the mutex protocol is its mutex"),
        Protocol::Base => Rule::Base(Slots::new(&Home::Private, 3, next)),
        Protocol::Help => {
            Rule::Help(Slots::new(&Home::Private, 3, next), Helping::new(&Home::Private, 3, record_bytes_max, next))
        }
    };
    Reserve { ring: Ring::new(&Home::Private, ring_bytes), slot_allocator: SlotAllocator::new(3), rule }
}

/// A room that, if `tight`, is full at the first look, so that the bound is raised, and for which no thread has to
/// wait.
pub(super) struct Endless {
    tight: Cell<bool>,
}

impl Endless {
    pub(super) fn new(tight: bool) -> Self {
        Self { tight: Cell::new(tight) }
    }
}

impl Room for Endless {
    fn durable(&self) -> Lsn {
        if self.tight.take() { Lsn::ZERO } else { Lsn::new(1 << 40) }
    }

    fn wait_durable(&self, _: Lsn) -> Result<(), WalError> {
        unreachable!("there is room")
    }

    fn has_stopped(&self) -> bool {
        false
    }

    /// Called only in a deadlock that loom has found.
    fn poison(&self) {}

    fn refusal(&self, _: State) -> WalError {
        WalError::Closed
    }
}

/// Where the records of a model go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelSink {
    /// Nowhere: complete records count as durable.
    Null,
    /// To a disk, when the model flushes.
    Disk,
}

/// A log in memory that starts at [`ModelLog::START`], with up to three writers.
#[derive(Debug)]
pub struct ModelLog {
    reserve: Reserve,
    /// Raised by flushes; `None` without a disk.
    durable: Option<AtomicU64>,
    /// Every append finds the ring full at its first look.
    tight: bool,
}

/// The slot of one writer.
#[derive(Debug)]
pub struct ModelWriter(Slot);

impl ModelLog {
    /// The position of the first record; it leaves room for an earlier commit.
    pub const START: Lsn = Lsn::FIRST.plus(LEN);

    /// Makes an empty log. If `raises`, every append raises its bound, as if it had to wait for room.
    #[must_use]
    pub fn new(protocol: Protocol, sink: ModelSink, raises: bool) -> Self {
        Self {
            reserve: reserve(protocol, Self::START, RING_BYTES, LEN),
            durable: (sink == ModelSink::Disk).then(|| AtomicU64::new(Self::START.get())),
            tight: raises,
        }
    }

    /// Gives out a slot.
    ///
    /// # Panics
    /// If all three are taken.
    pub fn writer(&self) -> ModelWriter {
        ModelWriter(self.reserve.take_slot().expect("a free slot"))
    }

    /// Appends a record; calls `publish` with its position before the boundary passes it.
    pub fn append(&self, writer: &mut ModelWriter, publish: impl FnOnce(Lsn)) -> Appended {
        let record = Record::new(RecordHead::new(0, KIND_DATA, 0), &[]);
        let room = Endless::new(self.tight);
        let start = self.reserve.append(&mut writer.0, &room, &record, publish).expect("the log is open");
        Appended { start, end: start.plus(LEN) }
    }

    /// Returns the same as [`crate::Log::boundary`].
    pub fn boundary(&self) -> Lsn {
        self.reserve.boundary()
    }

    /// Returns the same as [`crate::Log::is_reached`], for the boundary.
    pub fn is_complete(&self, lsn: Lsn) -> bool {
        self.reserve.is_complete(lsn)
    }

    /// Raises the boundary as far as possible.
    pub fn advance(&self) -> Lsn {
        self.reserve.advance()
    }

    /// Blocks until the boundary is at `lsn`; a record ends at or behind that.
    pub fn wait_boundary(&self, lsn: Lsn) {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        let mut number = None;
        while self.reserve.park(lsn, &mut number, &waker) == Ok(false) {
            bell.wait();
        }
    }

    /// Returns the same as [`crate::Log::durable`].
    pub fn durable(&self) -> Lsn {
        self.durable.as_ref().map_or_else(|| self.boundary(), |durable| Lsn::new(durable.load(Ordering::Acquire)))
    }

    /// Writes everything that is complete; does nothing without a disk.
    pub fn flush(&self) {
        let Some(durable) = &self.durable else { return };
        let to = if mutant!("FLUSHED_BEYOND_BOUNDARY") { self.reserve.next() } else { self.reserve.advance() };
        durable.fetch_max(to.get(), Ordering::Release);
    }
}
