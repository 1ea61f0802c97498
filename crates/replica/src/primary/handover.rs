//! [`Handover`]: whether a primary transfers the lead to one of its replicas, and the phase of that. A state
//! machine without I/O or a clock of its own.
//!
//! ```text
//! Idle -- ask --> Ending -- offer(last) --> Offered -- reached(last) --> Taken -- succeed --> Given
//!  ^                 |                         |                           |
//!  +-----------------+-------- give up: refused, late, or gone ------------+
//! ```
//!
//! | phase | the primary | the replica |
//! |---|---|---|
//! | `Idle` | writes | follows |
//! | `Ending` | lets open transactions end; new ones wait | follows |
//! | `Offered` | appends nothing; `last` is the end of its log | receives everything up to `last` |
//! | `Taken` | appends nothing | has all of it, and may ask to lead |
//! | `Given` | has promised the next term, and never writes again | leads, or will |
//!
//! # Invariants
//! - W1. Only `Taken` leads to `Given`, for the one node that asked, before its time is over: the node that gets
//!   the lead has everything below `last`, and there is nothing above.
//! - W2. A primary that keeps the lead has not transferred it, and one that has transferred it does not continue:
//!   both are steps out of one phase, so only one of them is taken.
//! - W3. Every phase between `Idle` and `Given` has an end in time.
//!
//! Checked by the tests here: each step in each phase; random steps against W1 and W2.

use collie_base::Lsn;

use super::Sent;

/// The phase of a switchover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No node has asked.
    #[default]
    Idle,
    /// Open transactions end.
    Ending,
    /// The whole log is below `last`, which the replica has not reached.
    Offered {
        /// The end of the log.
        last: Lsn,
    },
    /// The replica has everything.
    Taken {
        /// The end of the log.
        last: Lsn,
    },
    /// The replica was promised the next term.
    Given,
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Handover {
    phase: Phase,
    /// The node that asked; meaningless in `Idle`.
    node: u64,
    /// When the time of the phase is over, on the primary's clock.
    until_ns: u64,
}

impl Handover {
    /// Returns the phase.
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the node that asked, if one has.
    pub(super) fn node(&self) -> Option<u64> {
        (self.phase != Phase::Idle).then_some(self.node)
    }

    /// Records that `node` asks; open transactions have until `until_ns` to end. Returns whether this begins a
    /// switchover: not while another one is in progress.
    pub(super) fn ask(&mut self, node: u64, until_ns: u64) -> bool {
        let begins = self.phase == Phase::Idle;
        if begins {
            *self = Self { phase: Phase::Ending, node, until_ns };
        }
        begins
    }

    /// Records that nothing is appended above `last` any more, and that all of it is on disk: the node has until
    /// `until_ns` to take it. Returns whether that is still wanted.
    pub(super) fn offer(&mut self, last: Lsn, until_ns: u64) -> bool {
        let is_wanted = self.phase == Phase::Ending;
        if is_wanted {
            (self.phase, self.until_ns) = (Phase::Offered { last }, until_ns);
        }
        is_wanted
    }

    /// Records the positions of `node`. Returns whether it now has everything, that is, on its disk. Its readers
    /// may see less while a quorum is missing, which may be the reason for the switchover; it applies everything
    /// before it leads.
    pub(super) fn reached(&mut self, node: u64, at: Sent) -> bool {
        match self.phase {
            Phase::Offered { last } if node == self.node && at.durable >= last => {
                self.phase = Phase::Taken { last };
                true
            }
            _ => false,
        }
    }

    /// Answers `node`, which asks to lead. Returns whether it may: then this node never writes again (W1).
    pub(super) fn succeed(&mut self, node: u64, now_ns: u64) -> bool {
        if node != self.node {
            return false;
        }
        match self.phase {
            Phase::Taken { .. } if now_ns < self.until_ns => self.phase = Phase::Given,
            Phase::Given => {}
            _ => return false,
        }
        true
    }

    /// Lets the primary keep the lead. Returns whether it may: not if the lead was given, and not if there is
    /// nothing to give up (W2).
    pub(super) fn give_up(&mut self) -> bool {
        let may = !matches!(self.phase, Phase::Idle | Phase::Given);
        if may {
            self.phase = Phase::Idle;
        }
        may
    }

    /// Records that the connection of `node` has ended. Returns whether the primary therefore keeps the lead: not
    /// if the node has everything, since it then needs no connection.
    pub(super) fn gone(&mut self, node: u64) -> bool {
        let is_needed = matches!(self.phase, Phase::Ending | Phase::Offered { .. });
        node == self.node && is_needed && self.give_up()
    }

    /// Returns whether the time of the phase is over (W3).
    pub(super) fn is_late(&self, now_ns: u64) -> bool {
        !matches!(self.phase, Phase::Idle | Phase::Given) && now_ns >= self.until_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LAST: Lsn = Lsn::new(5000);

    fn at(durable: u64, applied: u64) -> Sent {
        let [durable, applied] = [durable, applied].map(Lsn::new);
        Sent { sent: LAST, received: LAST, durable, applied }
    }

    /// Goal: the path from a request to the lead, on which each step enables the next, for one node. Method: each
    /// step too early, by another node, in time, and again.
    #[test]
    fn a_handover_goes_step_by_step_to_one_node() {
        let mut handover = Handover::default();
        assert!(!handover.offer(LAST, 9) && !handover.reached(7, at(5000, 5000)) && !handover.succeed(0, 1));
        assert!(handover.ask(7, 10) && !handover.ask(7, 10) && !handover.ask(8, 10));
        assert_eq!((handover.phase(), handover.node()), (Phase::Ending, Some(7)));
        assert!(!handover.reached(7, at(5000, 5000)) && !handover.succeed(7, 1));
        assert!(handover.offer(LAST, 20) && !handover.offer(LAST, 20));
        assert!(!handover.succeed(7, 1));
        for (node, positions) in [(8, at(5000, 5000)), (7, at(4999, 5000))] {
            assert!(!handover.reached(node, positions), "{positions:?}");
        }
        assert!(handover.reached(7, at(5000, 4000)), "its readers wait for a quorum");
        assert_eq!(handover.phase(), Phase::Taken { last: LAST });
        assert!(!handover.gone(7), "it has everything");
        assert!(!handover.succeed(8, 1) && handover.succeed(7, 19));
        assert!(handover.succeed(7, 99), "asked again, since the answer was lost");
        assert!(!handover.give_up() && !handover.gone(7) && !handover.is_late(99), "it is given");
        assert!(!handover.ask(8, 200));
    }

    /// Goal: every phase before the lead is given ends in time or with the connection, and the primary keeps the
    /// lead: the node does not lead after that (W2, W3). Method: each phase, late, and without a connection.
    #[test]
    fn a_primary_goes_on_when_its_successor_is_late_or_gone() {
        for steps in 1..=3 {
            let mut handover = Handover::default();
            assert!(handover.ask(7, 10));
            assert!(steps < 2 || handover.offer(LAST, 20));
            assert!(steps < 3 || handover.reached(7, at(5000, 6000)));
            let until = if steps == 1 { 10 } else { 20 };
            assert!(!handover.is_late(until - 1) && handover.is_late(until));
            assert!(!handover.succeed(7, until), "it is late");
            let mut gone = handover;
            assert!(!gone.gone(8));
            assert_eq!(gone.gone(7), steps < 3, "after {steps} steps");
            assert!(handover.give_up() && !handover.give_up());
            assert!(!handover.succeed(7, 1) && !handover.is_late(99));
            assert_eq!(handover.node(), None);
            assert!(handover.ask(8, 30), "another time");
        }
    }

    proptest! {
        /// Goal: W1 and W2: for any steps in any order, the lead is given at most once between two requests, only
        /// to the node that asked and has everything, and never while the primary continues. Method: random steps;
        /// the permitted ones are recorded.
        #[test]
        fn the_lead_is_given_to_one_who_has_everything_or_kept(
            steps in prop::collection::vec((0_u8..7, 0_u64..3, 4990_u64..5010, 0_u64..40), 1..60),
        ) {
            let mut handover = Handover::default();
            let (mut asked, mut has_all, mut given) = (None, false, None);
            for (step, node, lsn, now) in steps {
                match step {
                    0 if handover.ask(node, 20) => {
                        prop_assert_eq!(given, None);
                        (asked, has_all) = (Some(node), false);
                    }
                    1 => _ = handover.offer(LAST, 30),
                    2 if handover.reached(node, at(lsn, lsn)) => {
                        prop_assert!(asked == Some(node) && lsn >= 5000);
                        has_all = true;
                    }
                    3 if handover.succeed(node, now) => {
                        prop_assert!(asked == Some(node) && has_all);
                        prop_assert!(now < 30 || given == Some(node));
                        given = Some(node);
                    }
                    4 if handover.give_up() => {
                        prop_assert_eq!(given, None);
                        asked = None;
                    }
                    5 if handover.gone(node) => {
                        prop_assert!(asked == Some(node) && given.is_none() && !has_all);
                        asked = None;
                    }
                    6 if handover.is_late(now) => prop_assert!(given.is_none() && asked.is_some()),
                    _ => {}
                }
            }
        }
    }
}
