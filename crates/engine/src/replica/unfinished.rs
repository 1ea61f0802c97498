//! `Unfinished`: the transactions with chunks that a followed log has not ended yet.
//!
//! # Invariants
//! - U1. Operations of chunks are held in memory up to [`HELD_BYTES_MAX`] for all transactions together; of the other
//!   chunks only the position is known, and they are read back from the follower's own log when the COMMIT comes.
//! - U2. The log is needed from the first chunk of each transaction on (`since`), and `large.rs` is notified of that.
//! - U3. Operations that ROLLBACK_TO voids, or that ABORT or an INCARNATION ends, never count; a COMMIT counts with all
//!   of its chunks or is damage.
//! - U4. Operations on a family that the transaction itself makes are applied ahead of the COMMIT (`live.rs` D7), if
//!   all chunks of the transaction were taken by live replay. A chunk without other operations is not held; it is read
//!   back only if ROLLBACK_TO voids a part of it.
//!
//! Memory: the held bytes, and a few words per chunk.

use std::ops::Range;

use collie_base::codec::Reader;
use collie_base::{CfId, Lsn, Map, Xid};

use crate::follow::record::RecordAt;
use crate::log::large::LargeTransactions;
use crate::redo::txn_chunks::TxnChunks;
use crate::redo::{Op, Redo};

/// Bytes of operations held until their COMMIT, for all transactions together.
pub(crate) const HELD_BYTES_MAX: usize = 64 << 20;

/// One chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) at: RecordAt,
    /// Its operations, if they are held (U1).
    pub(crate) ops: Option<Box<[u8]>>,
    /// The numbers of its operations.
    numbers: Range<u64>,
    ahead: Ahead,
}

impl Chunk {
    /// Returns how many of its operations are applied ahead of the COMMIT.
    pub(crate) const fn ahead(&self) -> Ahead {
        self.ahead
    }

    /// Returns the number of its first operation.
    pub(crate) const fn first_number(&self) -> u64 {
        self.numbers.start
    }
}

/// How many operations of a chunk are applied ahead of the COMMIT (U4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    None,
    Some,
    All,
}

/// A transaction that has not ended.
#[derive(Debug, Default)]
pub(crate) struct Open {
    pub(crate) course: TxnChunks,
    pub(crate) chunks: Vec<Chunk>,
    /// Whether an operation, perhaps a void one, is on the catalog.
    pub(crate) writes_catalog: bool,
    /// The families whose rows are applied ahead of the COMMIT (U4).
    pub(crate) ahead: Vec<CfId>,
    /// Whether a chunk was taken before live replay began; if so, nothing is applied ahead.
    began_earlier: bool,
    held_bytes: usize,
}

impl Open {
    /// Returns whether ROLLBACK_TO has voided an operation of a chunk that was applied ahead.
    pub(crate) fn is_ahead_void(&self) -> bool {
        let mut ahead = self.chunks.iter().filter(|chunk| chunk.ahead != Ahead::None);
        ahead.any(|chunk| !self.course.counts_all(&chunk.numbers))
    }

    /// Returns whether the rows of a family are applied ahead; notes one that no other transaction knows.
    fn is_ahead(&mut self, cf: CfId, is_new: &dyn Fn(CfId) -> bool) -> bool {
        let is_noted = self.ahead.contains(&cf);
        let is_new = !is_noted && is_new(cf);
        if is_new {
            self.ahead.push(cf);
        }
        is_noted || is_new
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Unfinished {
    open: Map<Xid, Open>,
    held_bytes: usize,
    held_bytes_max: usize,
    /// The start of the needed log: operations that ROLLBACK_TO voids may lie below.
    needed: Lsn,
}

impl Unfinished {
    /// Returns an empty set for a log that exists from `needed` on.
    pub(crate) fn new(needed: Lsn, held_bytes_max: usize) -> Self {
        Self { open: Map::default(), held_bytes: 0, held_bytes_max, needed }
    }

    /// Adds a chunk. `is_new` states whether no other transaction knows a family. If it came with all chunks of the
    /// transaction, the operations on such families are to be applied ahead (U4); returns those families.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn chunk(
        &mut self,
        at: RecordAt,
        xid: Xid,
        ops: &[u8],
        large: &LargeTransactions,
        is_new: Option<&dyn Fn(CfId) -> bool>,
    ) -> Result<&[CfId], &'static str> {
        large.begin(xid, at.since); // U2: the call for the first chunk counts
        let open = self.open.entry(xid).or_default();
        open.course.note_chunk(at.lsn);
        open.began_earlier |= is_new.is_none();
        let is_new = is_new.filter(|_| !open.began_earlier);
        let (first, mut ahead_count) = (open.course.logged(), 0);
        let mut last = None; // the family of the operation before, and whether it is ahead
        let mut reader = Reader::new(ops);
        while !reader.is_empty() {
            let op = Op::decode(&mut reader).map_err(|error| error.what)?;
            open.writes_catalog |= op.cf == CfId::CATALOG;
            open.course.note_operation();
            let Some(is_new) = is_new else { continue };
            let is_ahead = match last {
                Some((cf, is_ahead)) if cf == op.cf => is_ahead,
                _ => open.is_ahead(op.cf, is_new),
            };
            last = Some((op.cf, is_ahead));
            ahead_count += u64::from(is_ahead);
        }
        let numbers = first..open.course.logged();
        let ahead = match ahead_count {
            0 => Ahead::None,
            all if all == numbers.end - numbers.start => Ahead::All,
            _ => Ahead::Some,
        };
        let is_held = ahead != Ahead::All && self.held_bytes + ops.len() <= self.held_bytes_max;
        if is_held {
            self.held_bytes += ops.len();
            open.held_bytes += ops.len();
        }
        open.chunks.push(Chunk { at, ops: is_held.then(|| ops.into()), numbers, ahead });
        Ok(if ahead == Ahead::None { &[] } else { &open.ahead })
    }

    /// Keeps the first `kept` of the operations that are not void.
    ///
    /// # Errors
    /// If there are fewer.
    pub(crate) fn roll_back_to(&mut self, xid: Xid, kept: u64) -> Result<(), &'static str> {
        self.open.entry(xid).or_default().course.roll_back_to(kept, self.needed)
    }

    /// Drops a transaction. Returns the families whose rows were applied ahead.
    pub(crate) fn abort(&mut self, xid: Xid, large: &LargeTransactions) -> Vec<CfId> {
        large.abort(xid);
        self.take(xid).map(|open| open.ahead).unwrap_or_default()
    }

    /// Drops all transactions, since a new history begins. Returns the families whose rows were applied ahead.
    pub(crate) fn clear(&mut self, large: &LargeTransactions) -> Vec<CfId> {
        self.held_bytes = 0;
        let give_up = |(xid, open): (Xid, Open)| {
            large.abort(xid);
            open.ahead
        };
        self.open.drain().flat_map(give_up).collect()
    }

    /// Removes and returns a committed transaction; `None` if it has no chunk here.
    pub(crate) fn take(&mut self, xid: Xid) -> Option<Open> {
        let open = self.open.remove(&xid)?;
        self.held_bytes -= open.held_bytes;
        Some(open)
    }

    /// Notifies `large` of all transactions (U2), and sets the limit of held bytes to `held_bytes_max`.
    pub(crate) fn begin(&mut self, large: &LargeTransactions, held_bytes_max: usize) {
        self.held_bytes_max = held_bytes_max;
        for (xid, open) in &self.open {
            open.chunks.first().into_iter().for_each(|chunk| large.begin(*xid, chunk.at.since));
        }
    }

    /// Follows a record that other code applies.
    ///
    /// # Errors
    /// If it cannot be read, or contradicts the records before it.
    pub(crate) fn note(
        &mut self,
        at: RecordAt,
        redo: &Redo<'_>,
        large: &LargeTransactions,
    ) -> Result<(), &'static str> {
        match redo {
            Redo::Commit { xid, .. } => {
                drop(self.take(*xid));
                large.abort(*xid);
                Ok(())
            }
            Redo::Chunk { xid, ops } => self.chunk(at, *xid, ops, large, None).map(|_| ()),
            Redo::Abort { xid } => {
                drop(self.abort(*xid, large));
                Ok(())
            }
            Redo::RollbackTo { xid, first_void } => self.roll_back_to(*xid, *first_void),
            Redo::Incarnation(_) => {
                drop(self.clear(large));
                Ok(())
            }
            Redo::Relog { .. }
            | Redo::XidLimit { .. }
            | Redo::Unlogged { .. }
            | Redo::Time { .. }
            | Redo::Quorum(_) => Ok(()),
        }
    }
}
