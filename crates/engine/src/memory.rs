//! `MemoryLimit`: how much memory rows may take up (`store.memory_limit`), and what happens near it.
//!
//! | rows and their versions take up | what happens |
//! |---|---|
//! | 90 % of the limit | everything old is pruned, again with each 1/64 of the limit that they grow; deletions are flushed without waiting for many, since a row that the levels hold goes after that only; one warning, and another one only after they were below 80 % |
//! | 100 % | writes that store a value fail with [`EngineError::OutOfMemory`]. Reads, deletions and locks go on, and so do rows of the catalog: dropping a table is a way to make room. |
//!
//! What is counted is what families count of their rows (A1 of `store`'s families): not the log's ring, indexes of what is not
//! flushed yet, sessions, the levels' buffers, nor what an allocator adds. The limit is a bound for them by leaving room: its
//! default is half of what there is beyond 256 MiB.
//!
//! What a server takes up with rows at the limit, loaded by one session and then updated by eight (peak resident; jemalloc, a release build, defaults
//! but 64 MiB of `server.query_memory` and a private ring):
//!
//! | rows of | index | limit | peak |
//! |---|---|---|---|
//! | two ints and 90 bytes | - | 200 MiB | 378 MiB |
//! | the same | - | 800 MiB | 1,039 MiB |
//! | three ints | one, whose column is updated | 800 MiB | 1,117 MiB |
//! | two ints and 1,000 bytes | - | 800 MiB | 1,062 MiB |
//! | two ints and 0 to 400 bytes, which change | one, whose column is updated | 800 MiB | 1,050 MiB |
//!
//! That is below 200 MiB and 1.3 bytes for each byte of the limit. `server.query_memory` is a fifth of the machine's memory by default.
//!
//! # Invariants
//! - M1. Nobody is refused but after a count in the same call, so that room is found as soon as it is there.
//! - M2. Between two counts at most `room` bytes are stored, and what each session has not told yet: less than `step`. Values of
//!   `step` bytes and more are counted before they are stored.
//!
//! Progress: below the limit a write pays one load of a flag that hardly ever changes, and now and then an addition to one shared
//! word. A count is a load per family and stripe.
//!
//! Checked by `tests/memory.rs`.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

use collie_env::{Env, machine_memory_bytes};
use collie_sync::Padded;
use collie_wal::Warnings;

use crate::{EngineError, Options};

/// Memory that is left to the process by default before rows get half of the rest.
const SET_ASIDE_BYTES: u64 = 256 << 20;

/// Returns what rows may take up by default where there are `all` bytes of memory: half of what is left, an eighth of all at least.
fn default_limit(all: u64) -> u64 {
    (all.saturating_sub(SET_ASIDE_BYTES) / 2).max(all / 8)
}

/// The limit and how near it is.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    // Constant after open.
    limit_bytes: u64,
    step: u64,
    warnings: Warnings,
    // Written by who counts.
    full: AtomicBool,
    refused: AtomicU64,
    // Written by whoever ticks.
    warned: AtomicBool,
    /// What rows took up when everything was pruned; 0: they are below 90 %.
    pruned_at: AtomicU64,
    /// What was left at the last count, less what was stored since (M2): at most what is left.
    room: Padded<AtomicI64>,
}

impl MemoryLimit {
    /// With the limit that `options` give, or that the machine's memory does. Nothing is limited where neither says anything.
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

    /// Returns how many writes were refused since open.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Returns whether writes are refused.
    fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// Returns whether deletions are to be flushed so that their rows can go, of which `old_bytes` wait.
    pub(crate) fn wants_flush(&self, old_bytes: u64) -> bool {
        let is_near = self.pruned_at.load(Relaxed) > 0;
        self.is_full() && old_bytes > 0 || is_near && old_bytes >= self.limit_bytes / 64
    }

    /// Returns how many bytes a session may have stored without telling (M2).
    pub(crate) const fn step(&self) -> u64 {
        self.step
    }

    /// Fails when a value of so many bytes must not be stored. `count` tells what all rows take up.
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

    /// Takes note of what a session stored.
    pub(crate) fn stored(&self, bytes: u64, count: impl FnOnce() -> u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        if self.room.fetch_sub(bytes, Relaxed) < bytes {
            self.note(count());
        }
    }

    /// Takes note of what rows take up, and returns it.
    fn note(&self, used: u64) -> u64 {
        let room = i64::try_from(self.limit_bytes.saturating_sub(used)).unwrap_or(i64::MAX);
        self.room.store(room, Relaxed);
        if self.full.load(Relaxed) != (room == 0) {
            self.full.store(room == 0, Relaxed);
        }
        used
    }

    /// Looks how things stand, and warns. Returns whether everything old is to be pruned now; then look again. One thread at a time.
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

    /// Goal: a server whose rows are at the default limit fits into the memory that there is, with what the process takes up besides and all that
    /// statements may. Method: what was measured (see above) and the default of `server.query_memory`, for sizes from 320 MiB to 4 TiB.
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
