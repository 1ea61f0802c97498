//! [`Delay`]: how much later than a client of the primary the readers of one replica see a commit.
//!
//! The primary samples commits by their number and notes when their replies could leave ([`DrawnCommit`]). The
//! replica reports when each position became visible to its readers, on its own clock, and [`ClockOffset`] relates
//! that clock to this node's. The delay of a commit is the time between the two, whichever packets carried them
//! and whenever an ack arrived.
//!
//! # Invariants
//! - T1. The error of a delay is at most [`ClockOffset::uncertainty_ns`] and a microsecond; where marks were left
//!   out, the delay is too long rather than too short.
//! - T2. Only commits that became visible are measured, each once. 0 means that a commit was visible when its
//!   reply left; where nothing was committed, nothing is measured.
//! - T3. Only commits count whose reply left while the replica kept up: commits that it missed while it was away
//!   or being filled have no delay, nor do those that it had when it connected.
//! - T4. Memory is bounded: when [`WAITING_MAX`] commits wait to become visible, every second one is dropped, and
//!   the others represent twice as many.
//!
//! Checked by `delay/tests.rs`, against a simulation that knows the true delays.

use std::collections::VecDeque;

use collie_base::Lsn;

use super::{ClockOffset, Marks};
use crate::packet::Ack;

/// The most sampled commits that wait to become visible.
const WAITING_MAX: usize = 4096;

/// The most marks that are kept for commits that are reported here after the ack that covers them.
const SHOWN_MAX: usize = 64;

/// How long a lag is displayed after it was measured, when the replica has everything: as long as in PostgreSQL,
/// whose receivers report every 10 s that they are idle.
const LAG_SHOWN_NS: u64 = 10_000_000_000;

/// A sampled commit on the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnCommit {
    /// Its position: readers see it once the visible position is above it.
    pub csn: Lsn,
    /// The time from which its reply could leave.
    pub at_ns: u64,
    /// The number of commits that it represents.
    pub stands_for: u32,
}

/// The measured delay of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Its position.
    pub csn: Lsn,
    /// How much later it became visible, in nanoseconds.
    pub delay_ns: u64,
    /// The number of commits that it represents.
    pub stands_for: u32,
}

/// A sampled commit that the replica has not yet reported as received, durable and visible.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    commit: DrawnCommit,
    /// Whether its delay is measured (T3).
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

/// The time until acks report that a replica has a commit, as PostgreSQL displays it.
#[derive(Clone, Copy, Debug, Default)]
struct Lag {
    reached: Lsn,
    /// The lag of the newest commit.
    last_ns: u64,
    measured_ns: Option<u64>,
}

impl Lag {
    /// Returns the lag to display at `now_ns`: the last measured one, or the time for which a position has been
    /// owed if that is longer; once nothing is owed, the last measured one for [`LAG_SHOWN_NS`], and then `None`.
    fn now_ns(&self, marks: &Marks, durable: Lsn, now_ns: u64) -> Option<u64> {
        if self.reached < durable {
            return Some(self.last_ns.max(marks.owed_ns(self.reached, durable, now_ns)));
        }
        let is_fresh = |measured_ns: u64| now_ns.saturating_sub(measured_ns) < LAG_SHOWN_NS;
        self.measured_ns.is_some_and(is_fresh).then_some(self.last_ns)
    }
}

/// See the module's documentation. One per connection.
#[derive(Clone, Debug, Default)]
pub struct Delay {
    clock: ClockOffset,
    /// Positions below which everything is visible, with the time on this node's clock from which it is, according
    /// to recent acks; oldest first.
    shown: VecDeque<(Lsn, u64)>,
    waiting: Vec<Waiting>,
    is_steady: bool,
    /// The time of the last ack.
    heard_ns: u64,
    received: Lag,
    durable: Lag,
    applied: Lag,
}

impl Delay {
    /// Notes that the replica keeps up from now on: commits that are sampled from here on count (T3).
    pub fn begin(&mut self) {
        self.is_steady = true;
    }

    /// Records sampled commits, and calls `measured` for those that are already visible.
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

    /// Records an ack that arrived at `now_ns`, and calls `measured` for each commit that it reports as visible.
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

    /// Checks the waiting commits against the acks.
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
            // The lag ends when this node learns of it, as in PostgreSQL.
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

    /// Returns for how long counted commits that are not visible have waited at `now_ns`, for those that already
    /// waited at `since_ns`. The times allow for acks in transit, so they are never longer than the real ones.
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

    /// Returns the largest possible error of a measured delay, in nanoseconds; `u64::MAX` before the first round
    /// trip.
    pub fn uncertainty_ns(&self) -> u64 {
        self.clock.uncertainty_ns()
    }

    /// Returns the lags as PostgreSQL displays them, when everything below `durable` is on this node's disk.
    pub fn lags(&self, marks: &Marks, durable: Lsn, now_ns: u64) -> Lags {
        Lags {
            write_ns: self.received.now_ns(marks, durable, now_ns),
            flush_ns: self.durable.now_ns(marks, durable, now_ns),
            replay_ns: self.applied.now_ns(marks, durable, now_ns),
        }
    }
}

/// Times from when the reply to a commit could leave here until an ack reports that a replica has the commit too,
/// at the time of the call, in nanoseconds; `None` for an idle replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lags {
    /// Until it is in the replica's log.
    pub write_ns: Option<u64>,
    /// Until it is on the replica's disk.
    pub flush_ns: Option<u64>,
    /// Until it is visible to the replica's readers, by the replica's report of the time, not by the arrival of
    /// the ack.
    pub replay_ns: Option<u64>,
}

#[cfg(test)]
mod tests;
