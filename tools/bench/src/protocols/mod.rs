//! How logs assign positions: the protocols of similar systems, each small and complete, on one ring and one sink.
//!
//! A protocol gives an appender its turn (a range of positions) and determines up to where every record is complete.
//! The common parts are in [`harness`](crate::harness): the copy into the ring, the wait for room, and the thread that
//! empties the ring. They are the same for all, so rows differ by the protocol alone. The protocols are written from
//! the published descriptions of the systems after which they are named, and contain no code of theirs. The parts of a
//! system around its protocol (buffer tables, latches of pages, checkpoints) are left out.
//!
//! | module | as in | position by | completion by |
//! |---|---|---|---|
//! | `mutex` | any small log | one mutex, held over the copy | the same mutex |
//! | `insert_locks` | PostgreSQL | a spinlock | 8 insert locks that the boundary checks |
//! | `joined_slot` | WiredTiger | compare-and-swap on the active slot's word | `fetch_add` on the same word |
//! | `link_buffer` | MySQL 8 | `fetch_add` | a store into a table of links, followed in order |
//! | `range_map` | wal-db | `fetch_add` | an ordered map of finished ranges under a mutex |
//! | `flags` | Border-Collie as published | `fetch_add` | a black or white flag per worker, scanned |
//!
//! # Contract
//! - K1. `begin` assigns every position once, in ranges without gaps between them.
//! - K2. `boundary` is the end of a range, never falls, and passes a range only after its `finish`. Loading it makes
//!   everything visible that happened before that `finish`.
//!
//! Checked by `protocols_tests` for every protocol.

mod flags;
mod insert_locks;
mod joined_slot;
mod link_buffer;
mod mutex;
mod range_map;

pub(crate) use flags::Flags;
pub(crate) use insert_locks::InsertLocks;
pub(crate) use joined_slot::JoinedSlot;
pub(crate) use link_buffer::LinkBuffer;
pub(crate) use mutex::OneMutex;
pub(crate) use range_map::RangeMap;

/// A way of assigning positions.
///
/// # Safety
/// K1 and K2 hold: the accesses to the ring rely on them.
pub(crate) unsafe trait Protocol: Send + Sync + 'static {
    /// The state that an appending thread keeps between appends.
    type Handle: Send;
    /// The state that it holds from `begin` to `finish`.
    type Turn<'a>;

    /// Creates the protocol at position `start` for at most `threads` appending threads and a ring of `ring_bytes`.
    fn new(start: u64, threads: usize, ring_bytes: u64) -> Self;

    /// Creates the handle of appending thread number `thread`.
    fn handle(&self, thread: usize) -> Self::Handle;

    /// Takes the next `bytes` positions; returns the first of them.
    fn begin<'a>(&'a self, handle: &mut Self::Handle, bytes: u64) -> (u64, Self::Turn<'a>);

    /// Notes that the holder of a turn is about to wait for room in the ring.
    fn blocked(&self, _turn: &Self::Turn<'_>, _start: u64) {}

    /// Ends the turn for `start..end`: the record is in the ring.
    fn finish<'a>(&'a self, handle: &mut Self::Handle, turn: Self::Turn<'a>, start: u64, end: u64);

    /// Returns the next free position.
    fn reserved(&self) -> u64;

    /// Returns the boundary, after advancing it as far as the protocol can. Any thread may call it.
    fn boundary(&self) -> u64;
}
