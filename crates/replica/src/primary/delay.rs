//! [`Delay`]: how much later than a client of the primary the readers of one replica see a commit.
//!
//! The primary draws commits by their number and notes when their replies could leave ([`DrawnCommit`]). The replica says since when its
//! readers see which positions, by its own clock, which [`ClockOffset`] knows against this one. A commit's delay is what lies between
//! the two, commit by commit, whatever the packets were that carried them and whenever an ack came.
//!
//! # Invariants
//! - T1. A delay is off by no more than [`ClockOffset::uncertainty_ns`] and a microsecond; where marks were left out, it is rather too long.
//! - T2. What is measured is of commits that were shown, each once. 0 says that a commit was shown when its reply left; where nothing was
//!   committed, nothing is measured.
//! - T3. Only commits count whose reply left while the replica kept up: what it missed while it was away or being filled is no delay, nor is
//!   what it came with.
//! - T4. Memory is bounded: of [`WAITING_MAX`] commits that wait to be shown every second one stands for two.
//!
//! Checked by `delay_tests.rs`, against a simulation that knows the truth.

use std::collections::VecDeque;

use collie_base::Lsn;

use super::{ClockOffset, Marks};
use crate::packet::Ack;

/// Most drawn commits that wait to be shown.
const WAITING_MAX: usize = 4096;

/// Marks that are kept for commits whose notes come later than the ack that covers them.
const SHOWN_MAX: usize = 64;

/// For how long a lag is shown after it was measured, when the replica has everything: as long as PostgreSQL's, whose receivers report
/// that they are idle every 10 s.
const LAG_SHOWN_NS: u64 = 10_000_000_000;

/// A commit that was drawn on the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnCommit {
    /// Its position: readers see it once what is shown lies above.
    pub csn: Lsn,
    /// When its reply could leave.
    pub at_ns: u64,
    /// How many commits it stands for.
    pub stands_for: u32,
}

/// A commit's delay, as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Its position.
    pub csn: Lsn,
    /// How much later it was seen, in nanoseconds.
    pub delay_ns: u64,
    /// For how many commits that stands.
    pub stands_for: u32,
}

/// A drawn commit of which the replica has not said everything.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    commit: DrawnCommit,
    /// T3.
    counts: bool,
    is_received: bool,
    is_durable: bool,
    is_shown: bool,
}

impl Waiting {
    const fn is_over(&self) -> bool {
        self.is_received && self.is_durable && self.is_shown
    }
}

/// How long it takes until acks say that a replica has something, as PostgreSQL shows it.
#[derive(Clone, Copy, Debug, Default)]
struct Lag {
    reached: Lsn,
    /// Of the newest commit.
    last_ns: u64,
    measured_ns: Option<u64>,
}

impl Lag {
    /// Returns what is shown at `now_ns`: the last one, or for how long something has been owed, if that is more; what was measured last for
    /// [`LAG_SHOWN_NS`] more once nothing is; `None` after that.
    fn now_ns(&self, marks: &Marks, durable: Lsn, now_ns: u64) -> Option<u64> {
        if self.reached < durable {
            return Some(self.last_ns.max(marks.owed_ns(self.reached, durable, now_ns)));
        }
        let is_fresh = |measured_ns: u64| now_ns.saturating_sub(measured_ns) < LAG_SHOWN_NS;
        self.measured_ns.is_some_and(is_fresh).then_some(self.last_ns)
    }
}

/// See the module's documentation. Of one connection.
#[derive(Clone, Debug, Default)]
pub struct Delay {
    clock: ClockOffset,
    /// Positions below which everything is shown, and since when on this node's clock, as far as acks said lately; oldest first.
    shown: VecDeque<(Lsn, u64)>,
    waiting: Vec<Waiting>,
    is_steady: bool,
    /// When the last ack came.
    heard_ns: u64,
    received: Lag,
    durable: Lag,
    applied: Lag,
}

impl Delay {
    /// The replica keeps up from now on: commits that are drawn from here on count (T3).
    pub fn begin(&mut self) {
        self.is_steady = true;
    }

    /// Takes note of commits that were drawn, and calls `measured` for those that are shown already.
    pub fn on_drawn(&mut self, drawn: &[DrawnCommit], measured: &mut dyn FnMut(Measured)) {
        let counts = self.is_steady;
        for commit in drawn {
            if self.waiting.len() == WAITING_MAX {
                self.thin(); // T4
            }
            let (is_received, is_durable, is_shown) = (false, false, false);
            self.waiting.push(Waiting { commit: *commit, counts, is_received, is_durable, is_shown });
        }
        self.look(measured);
    }

    fn thin(&mut self) {
        let mut place = 0_usize;
        self.waiting.retain_mut(|waiting| {
            place += 1;
            waiting.commit.stands_for = waiting.commit.stands_for.saturating_mul(2);
            place.is_multiple_of(2)
        });
    }

    /// Takes note of an ack that came at `now_ns`, and calls `measured` for each commit that it shows.
    pub fn on_ack(&mut self, ack: &Ack, now_ns: u64, measured: &mut dyn FnMut(Measured)) {
        // Before the first packet of a connection there is no clock to echo.
        if ack.echo_mono_ns != 0 {
            self.clock.on_round(ack.echo_mono_ns, ack.hold_ns, ack.replica_mono_ns, now_ns);
        }
        for mark in &ack.marks {
            let age_ns = u64::from(mark.age_us) * 1000;
            let here_ns = self.clock.here_ns(ack.replica_mono_ns.saturating_sub(age_ns));
            if self.shown.back().is_none_or(|(below, _)| *below < mark.lsn) {
                if self.shown.len() == SHOWN_MAX {
                    self.shown.pop_front();
                }
                self.shown.push_back((mark.lsn, here_ns.unwrap_or_else(|| now_ns.saturating_sub(age_ns))));
            }
        }
        self.heard_ns = now_ns;
        let reached =
            [(&mut self.received, ack.received), (&mut self.durable, ack.durable), (&mut self.applied, ack.applied)];
        for (lag, lsn) in reached {
            lag.reached = lag.reached.max(lsn);
        }
        self.look(measured);
    }

    /// Looks at what waits.
    fn look(&mut self, measured: &mut dyn FnMut(Measured)) {
        let Self { shown, waiting, heard_ns, received, durable, applied, .. } = self;
        let mut newest = [Lsn::ZERO; 3];
        let mut note = |lag: &mut Lag, place: usize, csn: Lsn, lag_ns: u64| {
            if csn > newest[place] {
                newest[place] = csn;
                (lag.last_ns, lag.measured_ns) = (lag_ns, Some(*heard_ns));
            }
        };
        waiting.retain_mut(|waiting| {
            let DrawnCommit { csn, at_ns, stands_for } = waiting.commit;
            // Until it is known here, as PostgreSQL has it.
            let known_ns = heard_ns.saturating_sub(at_ns);
            if !waiting.is_received && csn < received.reached {
                waiting.is_received = true;
                note(received, 0, csn, known_ns);
            }
            if !waiting.is_durable && csn < durable.reached {
                waiting.is_durable = true;
                note(durable, 1, csn, known_ns);
            }
            let above = shown.partition_point(|(below, _)| *below <= csn);
            if let Some((_, shown_ns)) = shown.get(above).filter(|_| !waiting.is_shown) {
                waiting.is_shown = true;
                let delay_ns = shown_ns.saturating_sub(at_ns);
                note(applied, 2, csn, delay_ns);
                if waiting.counts {
                    measured(Measured { csn, delay_ns, stands_for });
                }
            }
            !waiting.is_over()
        });
    }

    /// Returns how long commits that count and are not shown have waited at `now_ns`, those that did so at `since_ns` already, as far as
    /// acks can have said: not longer than they really have.
    pub fn waits(&self, since_ns: u64, now_ns: u64) -> impl Iterator<Item = Measured> {
        let way_ns = Some(self.clock.uncertainty_ns()).filter(|ns| *ns < u64::MAX).unwrap_or(0);
        let waits = self
            .waiting
            .iter()
            .filter(move |waiting| waiting.counts && !waiting.is_shown && waiting.commit.at_ns < since_ns);
        waits.map(move |Waiting { commit, .. }| Measured {
            csn: commit.csn,
            delay_ns: now_ns.saturating_sub(commit.at_ns).saturating_sub(way_ns),
            stands_for: commit.stands_for,
        })
    }

    /// Returns by how much what is measured may be off, in nanoseconds; `u64::MAX` before the first round trip.
    pub fn uncertainty_ns(&self) -> u64 {
        self.clock.uncertainty_ns()
    }

    /// Returns the lags as PostgreSQL shows them, when everything below `durable` is on this node's disk.
    pub fn lags(&self, marks: &Marks, durable: Lsn, now_ns: u64) -> Lags {
        Lags {
            write_ns: self.received.now_ns(marks, durable, now_ns),
            flush_ns: self.durable.now_ns(marks, durable, now_ns),
            replay_ns: self.applied.now_ns(marks, durable, now_ns),
        }
    }
}

/// Times from when the reply to a commit could leave here until a replica's ack says that it has it too, as of the call, in nanoseconds;
/// `None` for one that is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lags {
    /// In its log.
    pub write_ns: Option<u64>,
    /// On its disk.
    pub flush_ns: Option<u64>,
    /// Shown to its readers. By its clock of when that was, not by the ack's.
    pub replay_ns: Option<u64>,
}

#[cfg(test)]
#[path = "delay_tests.rs"]
mod tests;
