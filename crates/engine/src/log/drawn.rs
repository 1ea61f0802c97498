//! `Draw`: a sample of the commits, each with its position in the log and the time at which its reply could leave.
//!
//! A primary uses it to measure how much later the readers of its replicas see a commit. While it is off, a commit
//! pays one load.
//!
//! # Invariants
//! - D1. A hash of the commit's position decides whether it is drawn, independently of its writes and its duration.
//!   Each commit has the same chance, one in `one_in`, and a drawn one stands for `one_in` commits.
//! - D2. A commit never waits here. A commit that cannot be noted at once is not drawn.
//! - D3. Memory is bounded: at most [`DRAWN_MAX`] commits are kept. Once half of these are kept, each further one
//!   doubles `one_in`.
//!
//! Checked by the tests here.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use collie_base::Lsn;
use collie_env::Clock;
use parking_lot::Mutex;

/// The most commits that are kept until they are taken.
const DRAWN_MAX: usize = 8192;

/// The lowest rate: D3 stops there.
const ONE_IN_MAX: u32 = 1 << 20;

/// A drawn commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnCommit {
    /// The CSN of the commit: a snapshot above it shows it.
    pub csn: Lsn,
    /// The time at which its reply could leave, in nanoseconds of this machine's clock.
    pub at_ns: u64,
    /// The number of commits it stands for.
    pub stands_for: u32,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Draw {
    /// A power of two, or 0 if no commit is drawn. It publishes nothing else, so Relaxed.
    one_in: AtomicU32,
    drawn: Mutex<Vec<DrawnCommit>>,
    /// Set before `one_in` is nonzero for the first time.
    clock: OnceLock<Arc<dyn Clock>>,
}

/// Returns a number to which all bits of a position contribute (the finalizer of SplitMix64).
fn mix(csn: Lsn) -> u64 {
    let mixed = (csn.get() ^ (csn.get() >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Draw {
    /// Draws about one in `one_in` commits from now on, none for 0, with times of `clock`.
    pub(crate) fn set(&self, one_in: u32, clock: &Arc<dyn Clock>) {
        let one_in = if one_in == 0 { 0 } else { one_in.min(ONE_IN_MAX).next_power_of_two() };
        _ = self.clock.get_or_init(|| Arc::clone(clock));
        self.one_in.store(one_in, Relaxed);
        if one_in == 0 {
            self.drawn.lock().clear();
        }
    }

    /// Notes a commit whose reply may leave now, if it is drawn.
    ///
    /// # Progress
    /// Wait-free (D2).
    #[inline]
    pub(crate) fn note(&self, csn: Lsn) {
        let one_in = self.one_in.load(Relaxed);
        if one_in > 0 && mix(csn) & u64::from(one_in - 1) == 0 {
            self.add(csn, one_in);
        }
    }

    fn add(&self, csn: Lsn, stands_for: u32) {
        let Some(clock) = self.clock.get() else { return };
        let at_ns = clock.now_ns();
        let Some(mut drawn) = self.drawn.try_lock() else { return };
        if drawn.len() >= DRAWN_MAX / 2 && stands_for < ONE_IN_MAX {
            // D3; this fails if another thread has changed it since.
            _ = self.one_in.compare_exchange(stands_for, 2 * stands_for, Relaxed, Relaxed);
        }
        if drawn.len() < DRAWN_MAX {
            drawn.push(DrawnCommit { csn, at_ns, stands_for });
        }
    }

    /// Moves the commits drawn since the last call to `out`, roughly in order of their times.
    pub(crate) fn take(&self, out: &mut Vec<DrawnCommit>) {
        out.append(&mut self.drawn.lock());
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use collie_env::SimClock;

    use super::*;

    fn drawing(one_in: u32) -> (Draw, Arc<SimClock>) {
        let (draw, clock) = (Draw::default(), Arc::new(SimClock::new()));
        let shared: Arc<dyn Clock> = clock.clone();
        draw.set(one_in, &shared);
        (draw, clock)
    }

    fn taken(draw: &Draw) -> Vec<DrawnCommit> {
        let mut out = Vec::new();
        draw.take(&mut out);
        out
    }

    /// Goal: D1: all commits or none are drawn, as requested, or a part of them that stands for all. Method:
    /// positions as a log has them, whose distances are multiples of eight.
    #[test]
    fn commits_are_drawn_by_their_number() {
        let (draw, _clock) = drawing(1);
        (1..=100).for_each(|n| draw.note(Lsn::new(n * 64)));
        let all = taken(&draw);
        assert!(all.len() == 100 && all.iter().all(|one| one.stands_for == 1));
        let (draw, _clock) = drawing(9);
        (1..=16_000).for_each(|n| draw.note(Lsn::new(n * 64)));
        let part = taken(&draw);
        assert!((800..1200).contains(&part.len()) && part.iter().all(|one| one.stands_for == 16), "{}", part.len());
        let (draw, _clock) = drawing(0);
        (1..=100).for_each(|n| draw.note(Lsn::new(n)));
        assert_eq!(taken(&draw), []);
    }

    /// Goal: D3: a burst that is not taken out does not grow without bound, and the drawn commits still stand for
    /// about all of it. Method: many more commits than there is room for, taken out once.
    #[test]
    fn a_burst_is_drawn_more_and_more_rarely() {
        let (draw, _clock) = drawing(1);
        (1..=20_000).for_each(|n| draw.note(Lsn::new(n * 8)));
        let drawn = taken(&draw);
        let stood_for: u64 = drawn.iter().map(|one| u64::from(one.stands_for)).sum();
        assert!(drawn.len() <= DRAWN_MAX && drawn.last().is_some_and(|last| last.stands_for > 1), "{}", drawn.len());
        assert!((15_000..25_000).contains(&stood_for), "{stood_for}");
    }

    /// Goal: D2: a commit does not wait for a thread that takes the drawn ones. Method: a commit while their lock
    /// is held.
    #[test]
    fn a_commit_beside_a_reader_is_not_drawn() {
        let (draw, _clock) = drawing(1);
        let held = draw.drawn.lock();
        draw.note(Lsn::new(8));
        drop(held);
        draw.note(Lsn::new(16));
        assert_eq!(taken(&draw).iter().map(|one| one.csn).collect::<Vec<_>>(), [Lsn::new(16)]);
    }
}
