//! How logs hand out positions: the ways of Collie's relatives, each small and whole, on one ring and one sink.
//!
//! A protocol gives an appender its turn (a range of positions), and says up to where every record is complete. What
//! is common, the copy into the ring, the wait for room, the thread that empties the ring, is in
//! [`harness`](crate::harness) and the same for all, so that rows differ by the protocol alone. They are written from
//! the published descriptions of the systems they are named after; none is those systems' code, and what a system
//! does around its protocol (buffer tables, latches of pages, checkpoints) is left out.
//!
//! | module | as in | position by | completion by |
//! |---|---|---|---|
//! | `mutex` | any small log | one mutex, held over the copy | the same mutex |
//! | `insert_locks` | PostgreSQL | a spinlock | 8 insert locks that the boundary looks at |
//! | `joined_slot` | WiredTiger | compare-and-swap on the active slot's word | `fetch_add` on the same word |
//! | `link_buffer` | MySQL 8 | `fetch_add` | a store into a table of links, followed in order |
//! | `range_map` | wal-db | `fetch_add` | an ordered map of finished ranges under a mutex |
//! | `flags` | Border-Collie as published | `fetch_add` | a black or white flag per worker, scanned |
//!
//! # Contract
//! - K1. `begin` hands out every position once, in ranges that touch without a gap.
//! - K2. `boundary` is the end of a range, never falls, and passes a range only after `finish` of it; it is loaded so
//!   that what happened before `finish` is seen.
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

/// A way of handing out positions.
///
/// # Safety
/// K1 and K2 hold: the ring is written and read on their strength.
pub(crate) unsafe trait Protocol: Send + Sync + 'static {
    /// What an appending thread keeps between appends.
    type Handle: Send;
    /// What it holds from `begin` to `finish`.
    type Turn<'a>;

    /// Starts at `start` for at most `threads` appending threads and a ring of `ring_bytes`.
    fn new(start: u64, threads: usize, ring_bytes: u64) -> Self;

    /// Makes the handle of appending thread number `thread`.
    fn handle(&self, thread: usize) -> Self::Handle;

    /// Takes the next `bytes` positions; returns the first of them.
    fn begin<'a>(&'a self, handle: &mut Self::Handle, bytes: u64) -> (u64, Self::Turn<'a>);

    /// Is told that the holder of a turn will wait for room in the ring, before it does.
    fn blocked(&self, _turn: &Self::Turn<'_>, _start: u64) {}

    /// Ends the turn of `start..end`: the record is in the ring.
    fn finish<'a>(&'a self, handle: &mut Self::Handle, turn: Self::Turn<'a>, start: u64, end: u64);

    /// Returns the next free position.
    fn reserved(&self) -> u64;

    /// Returns the boundary, after doing what the protocol does to move it on. Any thread may call it.
    fn boundary(&self) -> u64;
}
