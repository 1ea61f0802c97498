//! `MemoryLimit`: how much memory rows may occupy (`store.memory_limit`), and the measures near that limit.
//!
//! | memory of rows and their versions | measures |
//! |---|---|
//! | 90 % of the limit | prune everything old, and again after each growth by 1/64 of the limit |
//! | | flush every family once old versions occupy 1/64 of the limit: a flush lets deleted rows be freed |
//! | | warn once, and again only after the memory was below 80 % |
//! | 100 % | refuse writes that store a value ([`EngineError::OutOfMemory`]) |
//! | | flush every family as soon as there are old versions |
//!
//! Reads, deletions and locks continue at 100 %, and so do writes of catalog rows: dropping a table is a way to
//! make room.
//!
//! The limit applies to the bytes of rows that families count (A1 of `store`'s families). It does not include the
//! log's ring, indexes of unflushed rows, sessions, the buffers of the levels, or the overhead of an allocator. The
//! default leaves room for these: half of the memory beyond 256 MiB, and at least an eighth of all.
//!
//! The table shows the peak resident memory of a server with rows at the limit, loaded by one session and then
//! updated by eight (jemalloc, a release build, defaults except for 64 MiB of `server.query_memory` and a private
//! ring):
//!
//! | rows of | index | limit | peak |
//! |---|---|---|---|
//! | two ints and 90 bytes | - | 200 MiB | 378 MiB |
//! | the same | - | 800 MiB | 1,039 MiB |
//! | three ints | one, whose column is updated | 800 MiB | 1,117 MiB |
//! | two ints and 1,000 bytes | - | 800 MiB | 1,062 MiB |
//! | two ints and 0 to 400 bytes, which change | one, whose column is updated | 800 MiB | 1,050 MiB |
//!
//! Each peak is below 200 MiB plus 1.3 bytes for each byte of the limit. `server.query_memory` is a fifth of the
//! machine's memory by default.
//!
//! # Invariants
//! - M1. A write is refused only after a count in the same call, so that room is found as soon as there is any.
//! - M2. Between two counts sessions store at most `room` bytes, and less than `step` bytes each that they have not
//!   reported yet. Values of `step` bytes and more are counted before they are stored.
//!
//! Cost: below the limit a write does one load of a flag that hardly ever changes, and now and then an addition to
//! one shared word. A count is a load per family and stripe.
//!
//! Checked by `crates/kv/tests/memory.rs`.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

use collie_env::{Env, machine_memory_bytes};
use collie_sync::Padded;
use collie_wal::Warnings;

use crate::{EngineError, Options};

/// Memory that the default limit leaves to the process before rows get half of the rest.
const SET_ASIDE_BYTES: u64 = 256 << 20;

/// Returns the default limit for `all` bytes of memory: half of the rest, and at least an eighth of all.
fn default_limit(all: u64) -> u64 {
    (all.saturating_sub(SET_ASIDE_BYTES) / 2).max(all / 8)
}

/// The limit, and how near the rows are to it.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    // Constant after open.
    limit_bytes: u64,
    step: u64,
    warnings: Warnings,
    // Written by threads that count.
    full: AtomicBool,
    refused: AtomicU64,
    // Written by the thread that calls `look`.
    warned: AtomicBool,
    /// Bytes of rows when everything was last pruned; 0: they are below 90 %.
    pruned_at: AtomicU64,
    /// Bytes that were free at the last count, less those reported as stored since (M2).
    room: Padded<AtomicI64>,
}

impl MemoryLimit {
    /// Takes the limit from `options`, or from the machine's memory. Without either nothing is limited.
    pub(crate) fn new(options: &Options, env: &Env) -> Self {
        let of_machine = || machine_memory_bytes(&*env.files).map_or(u64::MAX, default_limit);
        let limit_bytes = if options.memory_limit == 0 { of_machine() } else { options.memory_limit };
        Self {
            limit_bytes,
            step: (limit_bytes / 256).clamp(1 << 10, 64 << 10),
            warnings: options.log.warnings.clone(),
            full: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            warned: AtomicBool::new(false),
            pruned_at: AtomicU64::new(0),
            room: Padded::new(AtomicI64::new(0)), // nothing was counted yet
        }
    }

    /// Returns the limit; `None`: there is none.
    pub(crate) const fn limit_bytes(&self) -> Option<u64> {
        if self.limit_bytes == u64::MAX { None } else { Some(self.limit_bytes) }
    }

    /// Returns the number of writes that were refused since the database was opened.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Returns whether writes are refused.
    fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// Returns whether families should be flushed so that rows with old versions, of `old_bytes` in all, can be
    /// freed.
    pub(crate) fn wants_flush(&self, old_bytes: u64) -> bool {
        let is_near = self.pruned_at.load(Relaxed) > 0;
        self.is_full() && old_bytes > 0 || is_near && old_bytes >= self.limit_bytes / 64
    }

    /// Returns the number of bytes below which a session may store without reporting (M2).
    pub(crate) const fn step(&self) -> u64 {
        self.step
    }

    /// Fails when a value of `value_bytes` bytes must not be stored. `count` returns the bytes of all rows.
    #[inline]
    pub(crate) fn check_room(&self, value_bytes: usize, count: impl FnOnce() -> u64) -> Result<(), EngineError> {
        let bytes = u64::try_from(value_bytes).unwrap_or(u64::MAX);
        if bytes < self.step && !self.is_full() {
            return Ok(());
        }
        self.recount(bytes, count)
    }

    #[cold]
    fn recount(&self, bytes: u64, count: impl FnOnce() -> u64) -> Result<(), EngineError> {
        let used_bytes = self.note(count());
        if used_bytes.saturating_add(if bytes < self.step { 0 } else { bytes }) < self.limit_bytes {
            return Ok(());
        }
        self.refused.fetch_add(1, Relaxed);
        Err(EngineError::OutOfMemory { used_bytes, limit_bytes: self.limit_bytes })
    }

    /// Notes the bytes that a session has stored.
    pub(crate) fn stored(&self, bytes: u64, count: impl FnOnce() -> u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        if self.room.fetch_sub(bytes, Relaxed) < bytes {
            self.note(count());
        }
    }

    /// Notes the bytes of all rows, and returns them.
    fn note(&self, used: u64) -> u64 {
        let room = i64::try_from(self.limit_bytes.saturating_sub(used)).unwrap_or(i64::MAX);
        self.room.store(room, Relaxed);
        if self.full.load(Relaxed) != (room == 0) {
            self.full.store(room == 0, Relaxed);
        }
        used
    }

    /// Checks how near the limit is, and warns. Returns whether everything old should be pruned now; the caller
    /// then calls this again. One thread at a time.
    pub(crate) fn look(&self, count: impl FnOnce() -> u64) -> bool {
        let Some(limit) = self.limit_bytes() else { return false };
        let pruned_at = self.pruned_at.load(Relaxed);
        if pruned_at == 0 && u64::try_from(self.room.load(Relaxed)).is_ok_and(|room| room > limit / 10) {
            return false;
        }
        let used = self.note(count());
        let percent = u64::try_from(u128::from(used) * 100 / u128::from(limit.max(1))).unwrap_or(u64::MAX);
        if percent < 80 {
            self.warned.store(false, Relaxed);
        }
        if percent < 90 {
            self.pruned_at.store(0, Relaxed);
            return false;
        }
        if !self.warned.swap(true, Relaxed) {
            self.warnings.say(format!(
                "store.memory_limit: rows take up {used} bytes of {limit}: at the limit writes that store a value fail \
                 (OutOfMemory, SQLSTATE 53200): delete rows, drop tables, or raise it"
            ));
        }
        if pruned_at > 0 && used < pruned_at.saturating_add(limit / 64) {
            return false;
        }
        self.pruned_at.store(used.max(1), Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a server whose rows are at the default limit fits into the machine's memory, together with the rest of
    /// the process and with all that statements may use. Method: the measured peaks (see above) and the default of
    /// `server.query_memory`, for sizes from 320 MiB to 4 TiB.
    #[test]
    fn default_limit_leaves_room_for_all_else() {
        const MIB: u64 = 1 << 20;
        for all in (320..4 << 20).step_by(37).map(|mib| mib * MIB) {
            let (rows, queries) = (default_limit(all), all / 5);
            let process = 200 * MIB + rows / 10 * 13;
            assert!(process + queries <= all, "{} MiB: {} for rows", all / MIB, rows / MIB);
            assert!(rows >= all / 8);
        }
    }
}
