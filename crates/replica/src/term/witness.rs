//! [`Witness`]: a node that keeps promises and no data, so that two nodes survive the loss of one.
//!
//! ```text
//!            Degrade, at a position above the confirmed ones
//! restored ------------------------------------------------> degraded: Propose of other nodes is not promised
//!          <------------------------------------------------
//!            Restore, once the quorum has all that was acknowledged
//! ```
//!
//! Two nodes that acknowledge a commit only together cannot go on when one is lost: neither can tell a lost peer from
//! a cut network. The witness is the third vote. A replica leads with its own promise and that of the witness. A
//! leader acknowledges commits alone with the leave of the witness, which then promises no term to a replica that may
//! lack them.
//!
//! # Invariants
//! - X1. A leader degrades only in the highest term that the witness has promised, so that no other node can lead with
//!   the witness's promise at that time.
//! - X2. While a leader is degraded, the witness promises a term to no other node. Such a node leads only with the
//!   promise of the leader itself, which carries the position that the new leader must have (B1, B4 of `ballot.rs`).
//! - X3. A question that arrives late, after a newer one, changes nothing (W1 of `witness_state.rs`). The positions of
//!   the log put the questions in order, and terms put leaders in order.
//! - X4. A witness to which no leader has spoken about its quorum promises no term to a candidate: it may stand in for
//!   one that was lost, and a leader may be degraded.
//! - X5. A change is on disk before it is answered; a change that cannot be written is not answered and has not
//!   happened.
//!
//! Checked by `witness_model_tests.rs`: every interleaving of commits, losses, late questions and promotions of two
//! nodes and a witness.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use collie_base::Term;
use collie_engine::{DegradedLeader, EngineError, Promise, WitnessState};
use collie_env::Env;
use collie_sync::mutant;
use parking_lot::Mutex;

use super::{Reach, Standing, Terms};
use crate::packet::{TermKind, TermPacket};

/// See the module's documentation.
#[derive(Debug)]
pub struct Witness {
    env: Env,
    dir: PathBuf,
    terms: Arc<Terms>,
    /// Held while a question is answered.
    state: Mutex<WitnessState>,
}

impl Witness {
    /// Opens the witness in the directory `dir`, or makes one there.
    ///
    /// # Errors
    /// Those of [`WitnessState::open`]; a damaged promise.
    pub fn open(env: &Env, dir: &Path) -> Result<Self, EngineError> {
        let mut state = WitnessState::open(env, dir)?;
        if mutant!("WITNESS_FORGETS") {
            Promise::default().write(env, dir)?;
            state.leader = DegradedLeader::default();
        }
        let terms = Terms::open(env, dir, state.node_id, Term::default())?;
        Ok(Self { env: env.clone(), dir: dir.to_owned(), terms, state: Mutex::new(state) })
    }

    /// Returns the state: the database, and the leader that spoke last.
    pub fn state(&self) -> WitnessState {
        *self.state.lock()
    }

    /// Returns the highest promised term.
    pub fn promised(&self) -> Term {
        self.terms.promised()
    }

    /// Makes the witness that of the database `cluster_id`, if it is that of none yet; returns whether it is its
    /// witness now. The caller has verified that the node which asks has the witness's key.
    ///
    /// # Durability
    /// Durable when this returns.
    ///
    /// # Errors
    /// The file could not be written: it is the witness of no database yet.
    pub fn belongs_to(&self, cluster_id: u128) -> Result<bool, EngineError> {
        let mut state = self.state.lock();
        if state.cluster_id == 0 {
            self.keep(&mut state, |state| state.cluster_id = cluster_id)?;
        }
        Ok(state.cluster_id == cluster_id)
    }

    /// Answers a question of a node about terms, or of a leader about its quorum.
    ///
    /// # Durability
    /// The promise or the change is durable when this returns.
    ///
    /// # Errors
    /// The disk failed: there is no answer (X5).
    pub fn answer(&self, question: &TermPacket) -> Result<TermPacket, EngineError> {
        let mut state = self.state.lock();
        let TermPacket { kind, term, node, durable, .. } = *question;
        let leader = state.leader;
        let next = match kind {
            TermKind::Propose if leader.is_other_than(node) && !mutant!("DEGRADED_LEADER_IGNORED") => {
                let reach = Reach { last_term: leader.term, durable: leader.at };
                let standing = Standing { reach, ..Standing::default() };
                let packet = self.terms.packet(TermKind::Degraded, self.terms.promised(), &standing);
                return Ok(TermPacket { node: leader.node, ..packet }); // X2
            }
            TermKind::Degrade => leader.degraded(term, node, durable),
            TermKind::Restore => leader.restored(term, durable),
            TermKind::Propose if !leader.has_spoken() => None, // X4
            TermKind::Succeed => None,
            _ => return self.terms.answer(question, || Ok(Standing::default())),
        };
        // X1: the leader of an older term, or a second one of this term, is not promised anything.
        let leads = next.is_some() && self.terms.promise(term, node)?;
        if let Some(next) = next.filter(|_| leads) {
            self.keep(&mut state, |state| state.leader = next)?;
        }
        let kind = if leads { TermKind::Promise } else { TermKind::Refuse };
        Ok(self.terms.packet(kind, self.terms.promised(), &Standing::default()))
    }

    /// Writes a changed state, and takes it over once it is on disk (X5).
    fn keep(&self, state: &mut WitnessState, change: impl FnOnce(&mut WitnessState)) -> Result<(), EngineError> {
        let mut next = *state;
        change(&mut next);
        if next != *state {
            next.write(&self.env, &self.dir)?;
            *state = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use collie_base::{HistoryId, Lsn};

    use super::*;

    const DIR: &str = "/witness";

    fn ask(witness: &Witness, kind: TermKind, term: u64, node: u64, at: u64) -> TermPacket {
        let (history, last_term) = (HistoryId::new(0), Term::default());
        let question = TermPacket { kind, term: Term::new(term), history, node, last_term, durable: Lsn::new(at) };
        witness.answer(&question).unwrap()
    }

    /// Goal: X2, X4, X5 case by case, and over a power cut. Method: the life of two nodes, 7 and 8, from term 0 on, on
    /// a disk that keeps only synced bytes.
    #[test]
    fn witness_promises_no_term_while_a_leader_is_degraded() {
        let (env, disk) = Env::simulated(11);
        let witness = Witness::open(&env, DIR.as_ref()).unwrap();
        assert!(witness.belongs_to(77).unwrap() && witness.belongs_to(77).unwrap() && !witness.belongs_to(78).unwrap());
        assert_eq!(ask(&witness, TermKind::Propose, 2, 8, 0).kind, TermKind::Refuse, "it has met no leader");
        assert_eq!(ask(&witness, TermKind::Announce, 0, 7, 90).kind, TermKind::Promise);
        assert_eq!(ask(&witness, TermKind::Propose, 1, 7, 0).kind, TermKind::Refuse, "nothing is known of its quorum");
        assert_eq!(ask(&witness, TermKind::Restore, 0, 7, 90).kind, TermKind::Promise);
        assert_eq!(ask(&witness, TermKind::Propose, 1, 7, 0).kind, TermKind::Promise);
        assert_eq!(ask(&witness, TermKind::Restore, 1, 7, 90).kind, TermKind::Promise);
        assert_eq!(ask(&witness, TermKind::Degrade, 1, 7, 100).kind, TermKind::Promise);
        let env = Env::over(disk.power_cut(4), 12);
        let witness = Witness::open(&env, DIR.as_ref()).unwrap();
        assert!(!witness.belongs_to(78).unwrap());
        let refused = ask(&witness, TermKind::Propose, 2, 8, 0);
        assert_eq!((refused.kind, refused.node, refused.last_term), (TermKind::Degraded, 7, Term::new(1)));
        assert_eq!(witness.promised(), Term::new(1), "nothing is promised");
        assert_eq!(ask(&witness, TermKind::Propose, 2, 7, 0).kind, TermKind::Promise, "it has what it acknowledged");
        assert_eq!(ask(&witness, TermKind::Degrade, 1, 7, 120).kind, TermKind::Refuse, "term 1 is over");
        assert_eq!(ask(&witness, TermKind::Restore, 2, 7, 130).kind, TermKind::Promise);
        assert_eq!(ask(&witness, TermKind::Propose, 3, 8, 0).kind, TermKind::Promise);
        assert_eq!(ask(&witness, TermKind::Degrade, 2, 7, 140).kind, TermKind::Refuse, "another node may lead");
        assert_eq!(ask(&witness, TermKind::Degrade, 3, 8, 140).kind, TermKind::Promise);
        assert_eq!(ask(&witness, TermKind::Succeed, 4, 7, 140).kind, TermKind::Refuse, "it hands nothing over");
    }

    /// Goal: X5: leave that cannot be written is not given. Method: a disk that refuses; the question is repeated.
    #[test]
    fn leave_that_cannot_be_written_is_not_given() {
        let (env, disk) = Env::simulated(21);
        let witness = Witness::open(&env, DIR.as_ref()).unwrap();
        assert_eq!(ask(&witness, TermKind::Restore, 1, 7, 90).kind, TermKind::Promise);
        let before = witness.state();
        for call in disk.writes_and_syncs()..disk.writes_and_syncs() + 4 {
            disk.fail_write_or_sync(call, collie_env::Fault::Eio);
        }
        let (history, last_term) = (HistoryId::new(0), Term::default());
        let (kind, term, durable) = (TermKind::Degrade, Term::new(1), Lsn::new(100));
        let question = TermPacket { kind, term, history, node: 7, last_term, durable };
        assert!(witness.answer(&question).is_err());
        assert_eq!(witness.state(), before);
        disk.clear_faults();
        assert_eq!(witness.answer(&question).unwrap().kind, TermKind::Promise);
    }
}
