//! `MeasuredCommits`: commits that are measured and on their way to the watermark.
//!
//! The dispatcher begins one and puts it in, before it says that it has come so far; whoever then moves the watermark past it ends
//! it: a worker, or the dispatcher itself.
//!
//! # Invariants
//! - M1. Nobody waits here (RT1 of `collie_obs`). Where the queue is somebody else's at the moment, or full, the dispatcher gives its
//!   sample up, which counts as dropped; who ends commits leaves them to the one that has the queue, who looks again afterwards.
//! - M2. They are in the order of the log, and `next` is the first one's position as the last one to have the queue left it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use collie_base::{CfId, Lsn};
use collie_obs::{ApplyTxn, Source, Wait, start_wait, word, work_for};
use parking_lot::Mutex;

use crate::redo::Op;

/// Most commits that are on their way at one time.
const COMMITS_MAX: usize = 256;

/// Most families of a commit that are told apart.
const FAMILIES_MAX: usize = 16;

/// What stands in front of a commit as it is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub(crate) workers: usize,
    pub(crate) queue_rows: u64,
}

/// A commit that is measured and whose writes are being taken.
#[derive(Debug)]
pub(crate) struct MeasuredCommit {
    wait: Wait<ApplyTxn>,
    about: ApplyTxn,
    families: [CfId; FAMILIES_MAX],
}

impl MeasuredCommit {
    /// Begins to measure a commit, if it is its turn.
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

    /// Takes note of one of its writes.
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
    /// M2; the largest number for none, which is nearly always: what everybody looks at.
    next: AtomicU64,
    queue: Mutex<VecDeque<OnItsWay>>,
}

impl MeasuredCommits {
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(u64::MAX), queue: Mutex::new(VecDeque::with_capacity(COMMITS_MAX)) }
    }

    /// Puts the commit at `csn` in, all of whose writes were taken. The dispatcher's.
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

    /// Ends those that the watermark has passed.
    #[inline]
    pub(crate) fn passed(&self, applied: impl Fn() -> Lsn) {
        if self.next.load(Relaxed) < applied().get() {
            self.end_passed(applied);
        }
    }

    #[cold]
    fn end_passed(&self, applied: impl Fn() -> Lsn) {
        // Again after the queue was ours: whoever found it taken meanwhile has left its commits to us (M1).
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

    /// Goal: a commit's sample comes when the watermark is above the commit, and not before, with what was written; those for which
    /// there is no room are counted as dropped. Method: three more than there is room for, every one measured; the watermark moved by hand.
    /// Other tests of this program give samples as well: these are known by what stands before them.
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
