//! `Track`: the frames that were placed and are not durable yet, and how far the log is written and durable.
//!
//! Flushes write and sync in parallel, each through its own file description, and end in any order. `Track` determines
//! what their successes add up to.
//!
//! # Invariants
//! - K1. In-flight frames (`Leg`) are numbered in the order of the log, without a gap; all lie in one segment (`course`
//!   A4).
//! - K2. `written` is the end of the contiguous frames whose write succeeded.
//! - K3. A frame is covered when a sync succeeded that began after its write had, on the description of the flush that
//!   synced. `durable` is the end of the contiguous covered frames (LOG-8): the anchor.
//! - K4. Once a write or a sync failed none begins, until everything behind the anchor is written elsewhere. One that
//!   was in progress may still succeed, and counts by K3; a frame that was just being placed is written elsewhere with
//!   the rest.
//!
//! Checked by the tests below (every order, against a plain model) and by `flights_tests`.

use std::collections::VecDeque;

use collie_base::Lsn;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::WalError;

/// Where a frame ends, and the next one continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The segment that holds it.
    pub(crate) salt: u64,
    /// Where it ends in the segment.
    pub(crate) until: u64,
    pub(crate) crc: u32,
    pub(crate) end: Lsn,
}

/// An in-flight frame.
#[derive(Debug)]
struct Leg {
    at: Anchor,
    written: bool,
    /// Whether the sync of its own flush succeeded.
    synced: bool,
}

/// The frames that a sync which begins now covers if it succeeds.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Cover {
    /// Every frame below.
    below: u64,
    /// The flush's own frame.
    own: Option<u64>,
}

/// The state behind [`Track`].
#[derive(Debug, Default)]
pub(crate) struct Legs {
    legs: VecDeque<Leg>,
    /// Number of the first of them.
    first: u64,
    /// Frames below are written (K2).
    written_below: u64,
    /// Frames below are covered by the sync of some flush (K3).
    covered_below: u64,
    written: Lsn,
    anchor: Anchor,
    /// Flushes that write or sync now.
    busy: u32,
    /// Successful syncs.
    syncs: u64,
    /// Those of in-flight flushes, and the time that they took together, in nanoseconds.
    timed: (u64, u64),
    /// Their mean time, with less weight for older ones, in nanoseconds.
    took_ewma_ns: u64,
    /// The first failure (K4).
    broken: Option<String>,
    /// Whether writing elsewhere failed too: then nothing is ever placed again.
    lost: bool,
}

impl Legs {
    /// Starts behind `anchor`, which is durable.
    pub(crate) fn restart(&mut self, anchor: Anchor) {
        assert_eq!(self.busy, 0, "nobody uses the file that is left");
        self.first += self.legs.len() as u64;
        self.legs.clear();
        (self.written_below, self.covered_below) = (self.first, self.first);
        (self.written, self.anchor, self.broken) = (anchor.end, anchor, None);
    }

    /// Returns the end of what is durable.
    pub(crate) fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// Returns the end of what the kernel has.
    pub(crate) fn written(&self) -> Lsn {
        self.written
    }

    /// Returns whether a frame was placed that is not durable.
    pub(crate) fn is_unsynced(&self) -> bool {
        !self.legs.is_empty()
    }

    /// Returns the first failure, if there is one (K4).
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Returns the number of successful syncs.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Notes how long a successful sync of a flush took.
    pub(crate) fn took(&mut self, ns: u64) {
        self.timed = (self.timed.0 + 1, self.timed.1.saturating_add(ns));
        let before = if self.timed.0 == 1 { ns } else { self.took_ewma_ns };
        self.took_ewma_ns = before - before / 8 + ns / 8;
    }

    /// Returns about how long a sync of a flush takes, in nanoseconds: a mean in which each weighs 7/8 of the one after
    /// it.
    pub(crate) fn took_ewma_ns(&self) -> u64 {
        self.took_ewma_ns
    }

    /// Returns the number of successful syncs of flushes, and the time that they took together, in nanoseconds.
    pub(crate) fn timed(&self) -> (u64, u64) {
        self.timed
    }

    /// Notes that the frames that are not durable cannot be written elsewhere either.
    pub(crate) fn lose(&mut self) {
        self.lost = true;
    }

    /// Returns whether that has been noted.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Adds the next frame, which ends at `at`; returns its number.
    pub(crate) fn place(&mut self, at: Anchor) -> u64 {
        let one_segment = self.legs.back().is_none_or(|last| last.at.salt == at.salt);
        assert!(one_segment, "K1: a segment is synced before it is left");
        self.legs.push_back(Leg { at, written: false, synced: false });
        self.first + self.legs.len() as u64 - 1
    }

    fn leg(&mut self, number: u64) -> &mut Leg {
        let at = usize::try_from(number - self.first).expect("a few");
        &mut self.legs[at]
    }

    /// Notes that the write of a frame succeeded.
    pub(crate) fn wrote(&mut self, number: u64) {
        self.leg(number).written = true;
        let below = usize::try_from(self.written_below - self.first).expect("a few");
        let more = self.legs.iter().skip(below).take_while(|leg| leg.written);
        for leg in more {
            self.written_below += 1;
            self.written = leg.at.end;
        }
    }

    /// Returns what a sync that begins now covers; `own` is the flush's own frame, which is written. `None` if all of
    /// that is durable already, by the sync of a parallel flush.
    pub(crate) fn sync_begins(&mut self, own: Option<u64>) -> Option<Cover> {
        if self.legs.is_empty() || own.is_some_and(|own| own < self.first) {
            return None;
        }
        assert!(own.is_none_or(|own| self.leg(own).written), "a flight syncs what it has written");
        Some(Cover { below: self.written_below, own })
    }

    /// Notes that a sync succeeded; returns the end of what is durable now.
    pub(crate) fn synced(&mut self, cover: Cover) -> Lsn {
        self.syncs += 1;
        self.covered_below = self.covered_below.max(cover.below);
        if let Some(own) = cover.own.filter(|own| *own >= self.first) {
            self.leg(own).synced = true;
        }
        while self.legs.front().is_some_and(|leg| leg.synced || self.first < self.covered_below) {
            self.anchor = self.legs.pop_front().expect("just seen").at;
            self.first += 1;
        }
        // Every durable frame is written (K3), also one that was covered before an earlier one was.
        self.written_below = self.written_below.max(self.first);
        self.anchor.end
    }

    /// Notes that a write or sync failed (K4), unless another failed before; returns `error` for the caller to pass on.
    pub(crate) fn fail(&mut self, error: WalError) -> WalError {
        let text = error.to_string();
        self.broken.get_or_insert(text);
        error
    }
}

/// [`Legs`] behind a mutex that is never held over I/O, and the threads that wait for the flushes to end.
#[derive(Debug, Default)]
pub(crate) struct Track {
    legs: Mutex<Legs>,
    quiet: Condvar,
}

impl Track {
    /// Locks the in-flight frames.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Legs> {
        self.legs.lock()
    }

    /// Counts a flush that is about to write or sync.
    pub(crate) fn begin(&self) {
        self.legs.lock().busy += 1;
    }

    /// Takes a flush out of the count that has written and synced, or failed to.
    pub(crate) fn end(&self) {
        let mut legs = self.legs.lock();
        legs.busy -= 1;
        if legs.busy == 0 {
            self.quiet.notify_all();
        }
    }

    /// Waits until no flush writes or syncs. The caller ensures that none begins.
    pub(crate) fn wait_quiet(&self) {
        let mut legs = self.legs.lock();
        while legs.busy > 0 {
            self.quiet.wait(&mut legs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The history of one frame of the plain model, by times.
    #[derive(Clone, Copy, Debug, Default)]
    struct Plain {
        wrote: Option<usize>,
        /// When its own sync began, and whether it succeeded.
        began: Option<usize>,
        succeeded: bool,
    }

    fn at(number: u64) -> Anchor {
        Anchor { salt: 7, until: 4096 * (number + 2), crc: 0, end: Lsn::new(4096 + 10 * (number + 1)) }
    }

    proptest! {
        /// Goal: whatever the order in which writes and syncs end, and whichever fail, durable is the end of the frames
        /// from the front that each have a successful sync begun after their write; written likewise. Method: random
        /// steps of up to 8 frames, compared with a model that keeps the times and recomputes both marks from scratch.
        #[test]
        fn marks_are_contiguous_in_any_order(steps in prop::collection::vec((0..8_usize, any::<bool>()), 0..60)) {
            let mut legs = Legs::default();
            let start = Lsn::new(4096);
            legs.restart(Anchor { end: start, ..Anchor::default() });
            let mut plain = [Plain::default(); 8];
            let mut covers = [None; 8];
            let mut placed = 0;
            // Times at which the successful syncs began.
            let mut syncs: Vec<usize> = Vec::new();
            for (time, (leg, fails)) in steps.into_iter().enumerate() {
                if leg == placed {
                    prop_assert_eq!(legs.place(at(leg as u64)), leg as u64);
                    placed += 1;
                } else if leg < placed {
                    let this = &mut plain[leg];
                    match (this.wrote, this.began, this.succeeded) {
                        (None, None, _) if fails => {
                            legs.fail(WalError::Closed);
                            // Never written: it stays as it is.
                            this.began = Some(usize::MAX);
                        }
                        (None, None, _) => {
                            legs.wrote(leg as u64);
                            this.wrote = Some(time);
                        }
                        (Some(_), None, _) => {
                            covers[leg] = legs.sync_begins(Some(leg as u64));
                            this.began = Some(time);
                            prop_assert!(covers[leg].is_some() || legs.anchor().end >= at(leg as u64).end);
                        }
                        (Some(_), Some(began), false) if !fails => {
                            if let Some(cover) = covers[leg].take() {
                                legs.synced(cover);
                                this.succeeded = true;
                                syncs.push(began);
                            }
                        }
                        (Some(_), Some(_), false) if covers[leg].take().is_some() => {
                            legs.fail(WalError::Closed);
                        }
                        _ => {}
                    }
                }
                let written = plain[..placed].iter().take_while(|leg| leg.wrote.is_some()).count();
                // A sync counts for its own frame, and for those whose writes, and all writes before, had ended when it
                // began.
                let covered = |number: usize| {
                    plain[number].succeeded
                        || syncs.iter().any(|began| {
                            plain[..=number].iter().all(|leg| leg.wrote.is_some_and(|wrote| wrote < *began))
                        })
                };
                let durable = (0..placed).take_while(|number| covered(*number)).count();
                let end = |count: usize| count.checked_sub(1).map_or(start, |last| at(last as u64).end);
                prop_assert_eq!(legs.written(), end(written));
                prop_assert_eq!(legs.anchor().end, end(durable));
            }
        }
    }
}
