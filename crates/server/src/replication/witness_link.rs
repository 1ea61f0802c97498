//! [`WitnessLink`]: what the witness of a leader knows about the leader's quorum.
//!
//! ```text
//!                 Degrade promised
//! unknown -----------------------------> degraded: this node may acknowledge commits alone
//!  ^   ^  |                                  |
//!  |   |  '---- Restore promised --> restored|
//!  |   '--- a question is sent --------'     |
//!  '------------ Restore is sent ------------'
//! ```
//!
//! # Invariants
//! - K1. One question is on its way at a time, as far as this node knows; one that this node gave up may arrive later,
//!   and changes nothing then (X3 of `witness.rs` in crate `replica`).
//! - K2. This node may degrade only while the witness is known to have noted that.
//! - K3. Restore is sent only while commits wait for the quorum, and once the quorum has confirmed everything that may
//!   have been acknowledged without it: before this process began to lead, and while it was degraded.
//! - K4. What holds is sent again every [`REPEAT_EVERY`], so that a witness that lost its disk learns it.
//!
//! Checked by the model in `witness_model_tests.rs` of crate `replica`, which has the same steps.

use std::sync::Arc;
use std::time::Duration;

use collie_base::{Lsn, Term};
use collie_env::Env;
use collie_replica::{
    LinkError,
    database::leading,
    key::KeyFile,
    packet::{TermKind, TermPacket},
};
use collie_sql::catalog::system::WitnessState;
use parking_lot::Mutex;
use tokio::{runtime::Handle, task::block_in_place};

use super::candidate::Node;
use crate::config::{Peer, Peers};
use crate::log_lines;

/// The time between two questions that say the same (K4).
const REPEAT_EVERY: Duration = Duration::from_secs(10);

/// The time after a question without an answer, or with a refusal, before the next one.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What the witness is known to have noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Noted {
    #[default]
    Unknown,
    Restored,
    Degraded,
}

/// The state without I/O.
#[derive(Debug, Default)]
struct State {
    noted: Noted,
    /// Commits below may have been acknowledged without the quorum (K3).
    until: Lsn,
    /// A question is on its way (K1).
    is_asking: bool,
    /// No question is sent before this time, after one without an answer.
    retry_ns: u64,
    /// The witness is not reminded before this time.
    repeat_ns: u64,
    /// Whether the last question failed, so that only the first failure in a row is logged.
    failed: bool,
}

impl State {
    /// Returns the question that has to be sent now to a witness, if there is one: of a node that may degrade, or is
    /// degraded, or neither.
    fn next(&mut self, wants: Wants, now_ns: u64) -> Option<(TermKind, Lsn)> {
        let is_known = match wants {
            Wants::Leave { .. } => false,
            Wants::Degraded { .. } => self.noted == Noted::Degraded,
            Wants::Quorum { .. } => self.noted == Noted::Restored,
        };
        if self.is_asking || now_ns < self.retry_ns || (is_known && now_ns < self.repeat_ns) {
            return None;
        }
        let question = match wants {
            Wants::Leave { durable } => {
                (self.noted, self.until) = (Noted::Unknown, self.until.max(durable));
                (TermKind::Degrade, durable)
            }
            Wants::Degraded { durable } => (TermKind::Degrade, durable),
            Wants::Quorum { confirmed } if self.noted == Noted::Restored || confirmed > self.until => {
                self.noted = Noted::Unknown;
                (TermKind::Restore, confirmed)
            }
            Wants::Quorum { .. } => return None,
        };
        self.is_asking = true;
        Some(question)
    }

    /// Records the end of a question; `promised`: the witness has noted it.
    fn answered(&mut self, kind: TermKind, promised: bool, now_ns: u64) {
        self.is_asking = false;
        let after = |pause: Duration| now_ns.saturating_add(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX));
        if promised {
            self.noted = if kind == TermKind::Degrade { Noted::Degraded } else { Noted::Restored };
            self.repeat_ns = after(REPEAT_EVERY);
        } else {
            self.retry_ns = after(RETRY_AFTER);
        }
    }
}

/// What a leader wants of its witness.
#[derive(Clone, Copy, Debug)]
enum Wants {
    /// Leave to acknowledge commits alone, at the end of its log.
    Leave { durable: Lsn },
    /// It acknowledges commits alone.
    Degraded { durable: Lsn },
    /// Commits wait for the quorum, which has confirmed so much.
    Quorum { confirmed: Lsn },
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct WitnessLink {
    witness: Option<Peer>,
    node: Node,
    /// Its own name.
    name: String,
    /// The key by which the witness recognizes it.
    key: KeyFile,
    env: Env,
    runtime: Handle,
    state: Mutex<State>,
}

impl WitnessLink {
    /// Makes the link of `node` to the witness at this address, if there is one.
    pub(super) fn new(
        witness: Option<&str>,
        (node, name, key): (Node, String, KeyFile),
        env: Env,
        runtime: Handle,
    ) -> Arc<Self> {
        let witness = witness.map(Peer::witness);
        Arc::new(Self { witness, node, name, key, env, runtime, state: Mutex::default() })
    }

    /// Records that this node acknowledges nothing without its quorum from here on; before, it may have acknowledged
    /// everything below `durable`.
    pub(super) fn counts_quorum_from(&self, durable: Lsn) {
        let mut state = self.state.lock();
        state.until = state.until.max(durable);
    }

    /// Returns whether this node may acknowledge commits without its quorum: always without a witness (K2). If not yet,
    /// the witness is asked in the background; `durable` is the end of the log on this node's disk.
    pub(super) fn may_degrade(self: &Arc<Self>, durable: Lsn) -> bool {
        if self.witness.is_none() || self.state.lock().noted == Noted::Degraded {
            return true;
        }
        self.send(Wants::Leave { durable });
        false
    }

    /// Returns what the witness knows, as far as this node is sure of it; `None` without a witness.
    pub(super) fn state(&self) -> Option<WitnessState> {
        self.witness.as_ref()?;
        let state = self.state.lock();
        Some(match state.noted {
            _ if state.failed => WitnessState::Unreachable,
            Noted::Unknown => WitnessState::Unknown,
            Noted::Restored => WitnessState::Whole,
            Noted::Degraded => WitnessState::Degraded,
        })
    }

    /// Tells the witness what holds, if it does not know or may have forgotten.
    pub(super) fn keep(self: &Arc<Self>, is_degraded: bool, durable: Lsn, confirmed: Lsn) {
        if self.witness.is_some() {
            let wants = if is_degraded { Wants::Degraded { durable } } else { Wants::Quorum { confirmed } };
            self.send(wants);
        }
    }

    fn send(self: &Arc<Self>, wants: Wants) {
        let Some(led) = self.node.led() else { return };
        let next = self.state.lock().next(wants, self.env.clock.now_ns());
        if let Some((kind, at)) = next {
            let this = self.clone();
            self.runtime.spawn(async move { this.ask(led, kind, at).await });
        }
    }

    async fn ask(&self, led: Term, kind: TermKind, at: Lsn) {
        let standing = leading(&self.node.db);
        let packet = TermPacket { durable: at, ..self.node.terms.packet(kind, led, &standing) };
        let witness = Peers(self.witness.iter().cloned().collect());
        let answers = witness.ask(&self.name, self.node.db.cluster_id(), &self.key, &packet).await;
        let answer = answers.into_iter().next().map_or(Err(LinkError::Closed), |(_, answer)| answer);
        let promised = matches!(&answer, Ok(answer) if answer.kind == TermKind::Promise && answer.term == led);
        let failed = match answer {
            Ok(_) if promised => None,
            Ok(answer) => {
                if answer.term > led
                    && let Err(error) = block_in_place(|| self.node.terms.promise(answer.term, 0))
                {
                    // The term counts in this process all the same (T3 of `terms.rs`).
                    log_lines::warn(&format_args!("term {} has begun, which cannot be noted: {error}", answer.term));
                }
                Some(format!("it refuses, in term {}", answer.term))
            }
            Err(error) => Some(error.to_string()),
        };
        let mut state = self.state.lock();
        let before = state.noted;
        state.answered(kind, promised, self.env.clock.now_ns());
        if let Some(why) = &failed
            && !state.failed
        {
            let address = self.witness.as_ref().map_or("", |witness| &witness.address);
            log_lines::warn(&format_args!("the witness at {address} does not note the state of the quorum: {why}"));
        }
        state.failed = failed.is_some();
        if state.noted == Noted::Degraded && before == Noted::Unknown {
            log_lines::note(
                &"the witness has noted that this node acknowledges commits alone: no other node can lead without it",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Goal: K1 to K4 step by step. Method: a leader that starts, loses its replica, gets leave, and is restored, with
    /// a lost answer on the way, at chosen times.
    #[test]
    fn witness_is_asked_once_at_a_time_and_told_when_the_quorum_is_whole() {
        let lsn = Lsn::new;
        let mut state = State { until: lsn(100), ..State::default() };
        let quorum = |confirmed| Wants::Quorum { confirmed: lsn(confirmed) };
        assert_eq!(state.next(quorum(100), S), None, "what was acknowledged before it led is not confirmed (K3)");
        assert_eq!(state.next(quorum(101), S), Some((TermKind::Restore, lsn(101))));
        assert_eq!(state.next(Wants::Leave { durable: lsn(110) }, S), None, "K1");
        state.answered(TermKind::Restore, true, 2 * S);
        assert_eq!(state.noted, Noted::Restored);
        assert_eq!(state.next(quorum(101), 11 * S), None);
        assert_eq!(state.next(quorum(101), 12 * S), Some((TermKind::Restore, lsn(101))), "K4");
        state.answered(TermKind::Restore, true, 12 * S);
        let leave = Wants::Leave { durable: lsn(120) };
        assert_eq!(state.next(leave, 30 * S), Some((TermKind::Degrade, lsn(120))));
        state.answered(TermKind::Degrade, false, 31 * S);
        assert_eq!((state.noted, state.next(leave, 31 * S)), (Noted::Unknown, None), "a pause after a failure");
        assert_eq!(state.next(quorum(120), 33 * S), None, "the witness may have noted it: K3");
        assert_eq!(state.next(leave, 33 * S), Some((TermKind::Degrade, lsn(120))));
        state.answered(TermKind::Degrade, true, 33 * S);
        assert_eq!(state.noted, Noted::Degraded, "K2");
        let degraded = Wants::Degraded { durable: lsn(150) };
        assert_eq!(state.next(degraded, 50 * S), Some((TermKind::Degrade, lsn(150))), "K4");
        state.answered(TermKind::Degrade, false, 51 * S);
        assert_eq!(state.noted, Noted::Degraded, "a repetition that is lost takes no leave back");
        state.until = lsn(170);
        assert_eq!(state.next(quorum(170), 60 * S), None);
        assert_eq!(state.next(quorum(171), 60 * S), Some((TermKind::Restore, lsn(171))));
        assert_eq!(state.noted, Noted::Unknown, "the witness may note it before the answer arrives: K2");
    }
}
