//! `Progress`: the positions of one replica, and what may be sent to it. A state machine without I/O.
//!
//! # Invariants
//! - G1. `durable`, `applied` <= `received` <= `sent`, and each only grows while a connection lasts: an ack that
//!   contradicts this ends the connection.
//! - G2. No more bytes than the window, plus one packet, are unacknowledged.
//! - G3. A round trip is measured on the primary's clock: now, less the echoed clock, less the time for which the
//!   replica held the packet. The replica measures that time on its own clock, which may run faster: a long time
//!   can exceed the whole round trip, which is then ignored.
//!
//! Checked by the tests here.

use collie_base::{Lsn, Term};

use crate::{LinkError, packet::Ack};

/// The positions sent and acknowledged on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    term: Term,
    window_bytes: u64,
    sent: Lsn,
    received: Lsn,
    durable: Lsn,
    applied: Lsn,
    rtt_min_ns: u64,
    rtt_last_ns: u64,
    queue_bytes: u32,
    heard_ns: u64,
}

/// The positions of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Below it, everything was sent to the replica.
    pub sent: Lsn,
    /// Below it, everything is in the replica's log.
    pub received: Lsn,
    /// Below it, everything is on the replica's disk.
    pub durable: Lsn,
    /// Below it, the replica's readers see everything.
    pub applied: Lsn,
}

impl Progress {
    /// Creates the progress of a replica that has everything below `start`.
    pub fn new(term: Term, start: Lsn, window_bytes: u64, now_ns: u64) -> Self {
        Self {
            term,
            window_bytes,
            sent: start,
            received: start,
            durable: Lsn::ZERO,
            applied: Lsn::ZERO,
            rtt_min_ns: u64::MAX,
            rtt_last_ns: u64::MAX,
            queue_bytes: 0,
            heard_ns: now_ns,
        }
    }

    /// Returns whether another packet may be sent (G2).
    pub fn may_send(&self) -> bool {
        self.sent.bytes_since(self.received) < self.window_bytes
    }

    /// Records that everything below `end` was sent.
    pub fn on_sent(&mut self, end: Lsn) {
        self.sent = end.max(self.sent);
    }

    /// Records an ack that arrived at `now_ns`.
    ///
    /// # Errors
    /// The ack is of another term, or impossible (G1).
    pub fn on_ack(&mut self, ack: &Ack, now_ns: u64) -> Result<(), LinkError> {
        let grows = ack.received >= self.received && ack.durable >= self.durable && ack.applied >= self.applied;
        if ack.term != self.term || !grows || ack.received > self.sent || ack.durable.max(ack.applied) > ack.received {
            return Err(LinkError::Unexpected { what: "ack" });
        }
        (self.received, self.durable, self.applied) = (ack.received, ack.durable, ack.applied);
        (self.queue_bytes, self.heard_ns) = (ack.queue_bytes, now_ns);
        // Before the first packet of a connection there is no clock to echo.
        if ack.echo_mono_ns != 0 {
            let Some(away_ns) = now_ns.checked_sub(ack.echo_mono_ns) else {
                return Err(LinkError::Unexpected { what: "clock in an ack" });
            };
            if let Some(round) = away_ns.checked_sub(ack.hold_ns) {
                self.rtt_last_ns = round;
                self.rtt_min_ns = self.rtt_min_ns.min(round);
            }
        }
        Ok(())
    }

    /// Returns the positions.
    pub fn positions(&self) -> Sent {
        Sent { sent: self.sent, received: self.received, durable: self.durable, applied: self.applied }
    }

    /// Returns the shortest round trip of this connection; `u64::MAX` before the first.
    pub fn rtt_min_ns(&self) -> u64 {
        self.rtt_min_ns
    }

    /// Returns the number of bytes that wait on the replica to be applied.
    pub fn queue_bytes(&self) -> u32 {
        self.queue_bytes
    }

    /// Returns the time of the last ack.
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(received: u64, durable: u64, applied: u64) -> Ack {
        let [received, durable, applied] = [received, durable, applied].map(Lsn::new);
        Ack {
            term: Term::new(1),
            received,
            durable,
            applied,
            echo_mono_ns: 1000,
            hold_ns: 300,
            replica_mono_ns: 5,
            queue_bytes: 1,
            marks: Vec::new(),
        }
    }

    /// Goal: G1 and G2. Method: sends and acks in an order that crosses the window, then each impossible ack.
    #[test]
    fn the_window_closes_and_opens_and_impossible_acks_are_refused() {
        let mut progress = Progress::new(Term::new(1), Lsn::new(4096), 1000, 0);
        assert!(progress.may_send());
        progress.on_sent(Lsn::new(5000));
        assert!(progress.may_send());
        progress.on_sent(Lsn::new(5096));
        assert!(!progress.may_send(), "a window of 1000 is full");
        progress.on_ack(&ack(4097, 4096, 4000), 2000).unwrap();
        assert!(progress.may_send());
        assert_eq!(progress.rtt_min_ns(), 700);
        progress.on_ack(&ack(5096, 5000, 5096), 1900).unwrap();
        assert_eq!(progress.rtt_min_ns(), 600);
        progress.on_ack(&ack(5096, 5000, 5096), 3000).unwrap();
        assert_eq!(progress.rtt_min_ns(), 600);
        for impossible in [ack(5097, 5000, 5096), ack(5095, 5000, 5096), ack(5096, 4999, 5096), ack(5096, 5000, 5095)] {
            assert!(progress.on_ack(&impossible, 3000).is_err(), "{impossible:?}");
        }
        let other_term = Ack { term: Term::new(2), ..ack(5096, 5000, 5096) };
        assert!(progress.on_ack(&other_term, 3000).is_err());
        progress.on_ack(&ack(5096, 5000, 5096), 1200).expect("held longer than it was away: the other clock is faster");
        assert_eq!(progress.rtt_min_ns(), 600);
        assert!(progress.on_ack(&ack(5096, 5000, 5096), 999).is_err(), "an echo of what was not sent yet");
        assert_eq!(progress.positions().durable, Lsn::new(5000));
    }
}
