//! `Watermark`: the position below which every commit of the log is applied.
//!
//! A dispatcher hands row writes to lanes, each with its own worker, and publishes its position; each worker publishes
//! the commit that it works on and the batches that it has done. Any thread can compute the watermark from these words.
//!
//! # Invariants
//! - W1. `dispatched` passes a commit only after the last of its writes was handed over (REPL-6).
//! - W2. `at` of a lane is at or below the commit of every write that was handed to it and is not applied, as long as
//!   `done` is below `handed`: the worker moves `at` only after the write before is in place.
//! - W3. `applied` only grows; for a thread that has read it, every write of every commit below is in place (R4).
//! - W4. After the last of several stores (of `dispatched`, of a lane's `done`) some thread publishes what follows from
//!   all of them: each publishes after its own store, with a SeqCst fence between the two, so of two threads that store
//!   at the same time one sees both stores.
//!
//! # Ordering
//! | store                            | pairs with                   | carries                                      |
//! |----------------------------------|------------------------------|----------------------------------------------|
//! | `dispatched` Release, dispatcher | its Acquire, first of `look` | the counts of `handed` below it (W1)         |
//! | `handed` Relaxed, dispatcher     | its Relaxed, `look`          | nothing: a newer one only lowers the result  |
//! | `at` Release, worker             | its Acquire, `look`          | the writes of earlier commits, in place (W2) |
//! | `done` Release, worker           | its Acquire, `look`          | the writes of the batch, in place            |
//! | `applied` AcqRel, publisher      | its Acquire, readers         | all of the above                             |
//!
//! `look` reads `dispatched` before the lanes, just as a scan of the log's boundary reads the end before the flags:
//! read after them, it might cover a commit whose writes the lanes did not show yet.
//!
//! # Progress
//! Everything here is wait-free except the loop of `fetch_max`.
//! Checked by `watermark/loom_models.rs`: each ordering weakened and each step exchanged is caught.

use collie_base::Lsn;
use collie_sync::Padded;
use collie_sync::atomic::{AtomicU64, Ordering, fence};
use collie_sync::{mutant, ord};

/// The words of one lane.
#[derive(Debug)]
struct Words {
    /// Batches handed to the lane. Stored by the dispatcher alone.
    handed: AtomicU64,
    /// Batches applied. Stored by the worker alone, as `at` is.
    done: AtomicU64,
    at: AtomicU64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Watermark {
    dispatched: Padded<AtomicU64>,
    lanes: Box<[Padded<Words>]>,
    applied: Padded<AtomicU64>,
}

/// The dispatcher's write access to the words; there is only one.
#[derive(Debug)]
pub(crate) struct Dispatched {
    handed: Vec<u64>,
}

/// A worker's write access to the words of its lane; there is one per lane.
#[derive(Debug)]
pub(crate) struct Worked {
    lane: usize,
    done: u64,
    at: Lsn,
}

impl Watermark {
    /// Returns the words for a log that is applied below `start`, with nothing handed over.
    pub(crate) fn new(start: Lsn, lanes: usize) -> (Self, Dispatched, Vec<Worked>) {
        let word = |value: u64| AtomicU64::new(value);
        let words = |_| Padded::new(Words { handed: word(0), done: word(0), at: word(start.get()) });
        let watermark = Self {
            dispatched: Padded::new(word(start.get())),
            lanes: (0..lanes).map(words).collect(),
            applied: Padded::new(word(start.get())),
        };
        let workers = (0..lanes).map(|lane| Worked { lane, done: 0, at: start }).collect();
        (watermark, Dispatched { handed: vec![0; lanes] }, workers)
    }

    /// Counts a batch for `lane`; `push` hands it over.
    pub(crate) fn hand(&self, dispatched: &mut Dispatched, lane: usize, push: impl FnOnce()) {
        dispatched.handed[lane] += 1;
        // Precedes the store of `dispatched` in program order, as W1 requires.
        self.lanes[lane].handed.store(dispatched.handed[lane], Ordering::Relaxed);
        push();
    }

    /// Publishes that every write of the commits below `end` was handed over (W1).
    pub(crate) fn dispatch(&self, end: Lsn) {
        self.dispatched.store(end.get(), ord!("DISPATCHED_STORE", Release));
    }

    /// Publishes that the worker has reached the writes committed at `csn`; those before are in place (W2).
    pub(crate) fn begin(&self, worked: &mut Worked, csn: Lsn) {
        if worked.at != csn {
            worked.at = csn;
            self.lanes[worked.lane].at.store(csn.get(), ord!("AT_STORE", Release));
        }
    }

    /// Publishes that the worker's batch is in place.
    pub(crate) fn finish(&self, worked: &mut Worked) {
        worked.done += 1;
        self.lanes[worked.lane].done.store(worked.done, ord!("DONE_STORE", Release));
    }

    /// Computes the watermark from the words.
    fn look(&self) -> u64 {
        let dispatched = || self.dispatched.load(ord!("DISPATCHED_LOAD", Acquire));
        let mut found = if mutant!("LANES_BEFORE_DISPATCHED") { u64::MAX } else { dispatched() };
        for lane in self.lanes.iter().filter(|_| !mutant!("LANES_NOT_WAITED_FOR")) {
            let handed = lane.handed.load(Ordering::Relaxed);
            if lane.done.load(ord!("DONE_LOAD", Acquire)) < handed {
                found = found.min(lane.at.load(ord!("AT_LOAD", Acquire)));
            }
        }
        if mutant!("LANES_BEFORE_DISPATCHED") { found.min(dispatched()) } else { found }
    }

    /// Computes and publishes the watermark, which covers the caller's last store (W4). Returns the published position.
    pub(crate) fn publish(&self) -> Lsn {
        if !mutant!("PUBLISHED_WITHOUT_FENCE") {
            fence(Ordering::SeqCst);
        }
        let found = self.look();
        let before = self.applied.fetch_max(found, ord!("APPLIED_MAX", AcqRel));
        Lsn::new(before.max(found))
    }

    /// Returns whether everything handed over is in place.
    pub(crate) fn is_done(&self, dispatched: &Dispatched) -> bool {
        let is_done = |(lane, handed): (&Padded<Words>, &u64)| lane.done.load(Ordering::Acquire) >= *handed;
        self.lanes.iter().zip(&dispatched.handed).all(is_done)
    }

    /// Returns the position below which everything is applied (W3).
    pub(crate) fn applied(&self) -> Lsn {
        Lsn::new(self.applied.load(ord!("APPLIED_LOAD", Acquire)))
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_models;
