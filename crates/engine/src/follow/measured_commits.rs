//! `MeasuredCommits`: measured commits that the watermark has not passed yet.
//!
//! The dispatcher begins to measure a commit and queues it before it dispatches the commit's position. The thread that
//! moves the watermark past it ends it: a worker, or the dispatcher itself.
//!
//! # Invariants
//! - M1. No thread waits here (RT1 of `collie_obs`). If another thread holds the queue, or the queue is full, the
//!   dispatcher gives its sample up, which counts as dropped. A thread that ends commits leaves them to the holder of
//!   the queue, which looks again afterwards.
//! - M2. The queue is in the order of the log, and `next` is the position of its first commit as the last holder of the
//!   queue left it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use collie_base::{CfId, Lsn};
use collie_obs::{ApplyTxn, Source, Wait, start_wait, word, work_for};
use parking_lot::Mutex;

use crate::redo::Op;

/// Maximum number of commits in the queue.
const COMMITS_MAX: usize = 256;

/// Maximum number of families of a commit that are counted.
const FAMILIES_MAX: usize = 16;

/// The work in front of a commit when it is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub(crate) workers: usize,
    pub(crate) queue_rows: u64,
}

/// A measured commit whose writes are being taken.
#[derive(Debug)]
pub(crate) struct MeasuredCommit {
    wait: Wait<ApplyTxn>,
    about: ApplyTxn,
    families: [CfId; FAMILIES_MAX],
}

impl MeasuredCommit {
    /// Begins to measure a commit, if the sampling rate selects it.
    #[inline]
    pub(crate) fn start(ahead: impl FnOnce() -> Ahead) -> Option<Self> {
        let wait = {
            let _scope = work_for(Source::Apply);
            start_wait()?
        };
        let Ahead { workers, queue_rows } = ahead();
        let about = ApplyTxn { workers: word(workers), queue_rows: word(queue_rows), ..ApplyTxn::default() };
        Some(Self { wait, about, families: [CfId::CATALOG; FAMILIES_MAX] })
    }

    /// Counts one of its writes.
    #[cold]
    pub(crate) fn note(&mut self, op: &Op<'_>) {
        let Self { about, families, .. } = self;
        about.rows = about.rows.saturating_add(1);
        let bytes = op.key.len() + op.value.map_or(0, <[u8]>::len);
        about.bytes = about.bytes.saturating_add(word(bytes));
        let known = usize::try_from(about.cfs).unwrap_or(FAMILIES_MAX);
        if known < FAMILIES_MAX && !families[..known].contains(&op.cf) {
            families[known] = op.cf;
            about.cfs += 1;
        }
    }
}

#[derive(Debug)]
struct OnItsWay {
    csn: Lsn,
    wait: Wait<ApplyTxn>,
    about: ApplyTxn,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct MeasuredCommits {
    /// See M2; the largest number if the queue is empty, which is nearly always so. Every thread reads it.
    next: AtomicU64,
    queue: Mutex<VecDeque<OnItsWay>>,
}

impl MeasuredCommits {
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(u64::MAX), queue: Mutex::new(VecDeque::with_capacity(COMMITS_MAX)) }
    }

    /// Queues the commit at `csn`, all of whose writes were taken. Called by the dispatcher.
    #[cold]
    pub(crate) fn put(&self, commit: MeasuredCommit, csn: Lsn, is_barrier: bool) {
        let MeasuredCommit { wait, mut about, .. } = commit;
        about.barrier = u32::from(is_barrier);
        match self.queue.try_lock() {
            Some(mut queue) if queue.len() < COMMITS_MAX => {
                if queue.is_empty() {
                    self.next.store(csn.get(), Relaxed);
                }
                queue.push_back(OnItsWay { csn, wait, about });
            }
            _ => wait.give_up(),
        }
    }

    /// Ends the commits that the watermark has passed.
    #[inline]
    pub(crate) fn passed(&self, applied: impl Fn() -> Lsn) {
        if self.next.load(Relaxed) < applied().get() {
            self.end_passed(applied);
        }
    }

    #[cold]
    fn end_passed(&self, applied: impl Fn() -> Lsn) {
        // Look again after the queue was held: a thread that found it held has left its commits to this one (M1).
        while self.next.load(Relaxed) < applied().get() {
            let Some(mut queue) = self.queue.try_lock() else { return };
            let applied = applied();
            while let Some(OnItsWay { csn, wait, about }) = queue.pop_front_if(|first| first.csn < applied) {
                wait.stop_with(csn, about, []);
            }
            self.next.store(queue.front().map_or(u64::MAX, |first| first.csn.get()), Relaxed);
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use collie_env::{Clock as _, RealClock};
    use collie_obs::{Batch, Drain, RateTable, Situation, offer_clock, publish};

    use super::*;

    fn now_ns() -> u64 {
        RealClock.now_ns()
    }

    /// Goal: a commit's sample comes when the watermark is above the commit, and not before, with its writes; commits
    /// without room are counted as dropped. Method: three more commits than there is room for, every one measured; the
    /// watermark is moved by hand. Other tests of this program give samples as well: those of this test are known by
    /// the work in front of them.
    #[test]
    fn commits_end_as_the_watermark_passes_them_and_what_has_no_room_is_counted() {
        const AHEAD: Ahead = Ahead { workers: 123, queue_rows: 456 };
        offer_clock(now_ns);
        let mut drain = Drain::open(&now_ns).expect("no other test drains");
        let mut batch = Batch::new();
        assert!(publish(&RateTable::all(1.0)));
        let commits = MeasuredCommits::new();
        for number in 1..=COMMITS_MAX as u64 + 3 {
            let mut commit = MeasuredCommit::start(|| AHEAD).expect("every one");
            for cf in [3, 4, 3] {
                commit.note(&Op { cf: CfId::new(cf), key: b"key", value: Some(b"value") });
            }
            commit.note(&Op { cf: CfId::new(3), key: b"gone", value: None });
            commits.put(commit, Lsn::new(number * 100), number == 1);
        }
        let mut told = |applied: u64| {
            commits.passed(|| Lsn::new(applied));
            drain.drain(now_ns(), Situation::default(), &mut batch);
            assert!(batch.dropped[25] >= if applied == 100 { 3 } else { 0 }, "{:?}", batch.dropped);
            let of_these = batch.samples.iter().filter(|sample| sample.ou == 25 && sample.features[3..5] == [123, 456]);
            of_these.copied().collect::<Vec<_>>()
        };
        assert!(told(100).is_empty(), "the watermark is at the first, not above it");
        let first = told(101);
        assert_eq!(first.len(), 1);
        let (sample, features) = (first[0], first[0].features);
        assert_eq!((sample.lsn, &features[..3], features[5]), (100, &[4, 28, 2][..], 1));
        assert_eq!(sample.source, Source::Apply.number());
        assert_eq!(told(u64::MAX).len(), COMMITS_MAX - 1);
        assert!(told(u64::MAX).is_empty());
        publish(&RateTable::off());
    }
}
