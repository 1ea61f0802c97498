//! `WitnessState`: the memory of a witness, a node that keeps promises and no data: its identity, and the leader that
//! acknowledges commits without its quorum.
//!
//! It is kept in the file `witness` of the witness's directory, next to its [`crate::Promise`], and is always replaced
//! as a whole; frame ([`frame`]) `COLLIEWI`, version 1:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 16 | 16 | cluster id; 0 before the first node has asked |
//! | 32 | 8 | node id of the witness, random |
//! | 40 | 8 | term of the leader that spoke last |
//! | 48 | 8 | node id of that leader while it is degraded; 0: its quorum has every commit |
//! | 56 | 8 | position of the last change |
//!
//! # Invariants
//! - W1. Within a term the position grows with each change, so that a question that arrives late changes nothing: a
//!   leader degrades at the end of its log, above all that its quorum had confirmed before, and is restored at a
//!   confirmed position above all at which it degraded.
//! - W2. A change is durable before the leader learns that it was made.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::path::Path;

use collie_base::{Lsn, Term};
use collie_env::Env;

use crate::dir::frame;
use crate::dir::log_place::{read_framed, write_framed};
use crate::{DirectoryIdentity, EngineError, dir::owner};

const NAME: &str = "witness";
const MAGIC: &[u8; 8] = b"COLLIEWI";
const VERSION: u32 = 1;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WitnessState {
    /// The database whose nodes ask; 0 before the first has asked.
    pub cluster_id: u128,
    /// The witness's own id.
    pub node_id: u64,
    /// The leader, and whether it is degraded.
    pub leader: DegradedLeader,
}

/// The leader that spoke last to a witness about its quorum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DegradedLeader {
    /// The term in which it leads.
    pub term: Term,
    /// Its id while it is degraded; 0: its quorum has every commit.
    pub node: u64,
    /// The position of the last change.
    pub at: Lsn,
}

impl DegradedLeader {
    /// Returns the state after `node`, which leads in `term`, degrades at `at`; `None` if the question is late (W1).
    #[must_use]
    pub fn degraded(self, term: Term, node: u64, at: Lsn) -> Option<Self> {
        let next = Self { term, node, at };
        (next == self || (term, at) > (self.term, self.at)).then_some(next)
    }

    /// Returns the state after the quorum of the leader in `term` has confirmed everything below `at`; `None` if the
    /// question is late (W1).
    #[must_use]
    pub fn restored(self, term: Term, at: Lsn) -> Option<Self> {
        let next = Self { term, node: 0, at };
        (next == self || (term, at) > (self.term, self.at)).then_some(next)
    }

    /// Returns whether any leader has spoken: the first one of a database leads in term 0.
    pub fn has_spoken(&self) -> bool {
        *self != Self::default()
    }

    /// Returns whether a leader other than `node` is degraded.
    pub fn is_other_than(&self, node: u64) -> bool {
        ![0, node].contains(&self.node)
    }
}

impl WitnessState {
    /// Reads the state in the directory `dir`, or makes the directory and a new state.
    ///
    /// # Durability
    /// Durable when this returns.
    ///
    /// # Errors
    /// The directory holds a database, or other accounts can change it; the file is damaged, has a newer version, or
    /// cannot be read or written.
    pub fn open(env: &Env, dir: &Path) -> Result<Self, EngineError> {
        if DirectoryIdentity::read(dir, env)?.is_some() {
            let what = "the directory of a database as that of a witness, which needs one of its own";
            return Err(EngineError::InvalidArgument { what });
        }
        owner::check_owned(dir, env)?;
        let found = read_framed(env, dir.join(NAME), |bytes| {
            let (_version, mut fields) = frame::decode(MAGIC, VERSION, bytes)?;
            let (cluster_id, node_id) = (fields.u128()?, fields.u64()?);
            let (term, node, at) = (Term::new(fields.u64()?), fields.u64()?, Lsn::new(fields.u64()?));
            fields.finish()?;
            Ok(Self { cluster_id, node_id, leader: DegradedLeader { term, node, at } })
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
        env.files.create_dir_all(dir).map_err(|error| EngineError::io("create", dir.to_owned(), error))?;
        let state = Self { cluster_id: 0, node_id: env.random.u64(), leader: DegradedLeader::default() };
        state.write(env, dir)?;
        Ok(state)
    }

    /// Replaces the file in the directory `dir`.
    ///
    /// # Durability
    /// Durable when this returns (W2).
    ///
    /// # Errors
    /// An I/O error: the file is then the old or the new one.
    pub fn write(&self, env: &Env, dir: &Path) -> Result<(), EngineError> {
        let DegradedLeader { term, node, at } = self.leader;
        let words = [self.node_id, term.get(), node, at.get()].map(u64::to_le_bytes).concat();
        let fields = [&self.cluster_id.to_le_bytes()[..], &words].concat();
        write_framed(env, dir, NAME, &frame::encode(MAGIC, VERSION, &fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a written state reads back after a power cut, a damaged one is refused, and the directory of a database
    /// is. Method: write, read, flip a bit; a directory with a control file.
    #[test]
    fn state_is_read_as_written_and_refused_when_damaged() {
        let (env, disk) = Env::simulated(5);
        let dir = Path::new("/witness");
        let new = WitnessState::open(&env, dir).unwrap();
        assert_eq!((new.cluster_id, new.leader), (0, DegradedLeader::default()));
        let leader = DegradedLeader { term: Term::new(3), node: 8, at: Lsn::new(5000) };
        let state = WitnessState { cluster_id: 1 << 100, leader, ..new };
        state.write(&env, dir).unwrap();
        let disk = disk.power_cut(4);
        let env = Env::over(disk.clone(), 6);
        assert_eq!(WitnessState::open(&env, dir).unwrap(), state);
        disk.flip(&dir.join(NAME), 20, 1).unwrap();
        let damaged = WitnessState::open(&env, dir);
        assert!(matches!(damaged, Err(EngineError::BadControlFile { .. })), "{damaged:?}");
        let data = Path::new("/data");
        let options = crate::Options { background: false, ..crate::Options::small() };
        drop(crate::Db::open(data, options, env.clone(), &mut |_| ()).unwrap());
        let refused = WitnessState::open(&env, data).unwrap_err().to_string();
        assert!(refused.contains("a witness, which needs one of its own"), "{refused}");
    }

    /// Goal: questions that arrive late change nothing (W1), and a repeated one is answered again. Method: each order
    /// of a degrade and a restore, within a term and across terms.
    #[test]
    fn late_questions_change_nothing() {
        let state = |term, node, at| DegradedLeader { term: Term::new(term), node, at: Lsn::new(at) };
        let degraded = |had: DegradedLeader, term, node, at| had.degraded(Term::new(term), node, Lsn::new(at));
        let restored = |had: DegradedLeader, term, at| had.restored(Term::new(term), Lsn::new(at));
        let one = state(2, 7, 50);
        assert_eq!(degraded(state(0, 0, 0), 2, 7, 50), Some(one));
        assert_eq!(degraded(one, 2, 7, 50), Some(one), "asked again");
        assert_eq!(restored(one, 2, 50), None, "the quorum had confirmed that before, and a restart forgot it");
        assert_eq!(restored(one, 2, 51), Some(state(2, 0, 51)));
        assert_eq!(restored(state(2, 0, 51), 2, 51), Some(state(2, 0, 51)), "asked again");
        assert_eq!(degraded(state(2, 0, 51), 2, 7, 51), None, "it was on its way while the quorum returned");
        assert_eq!(degraded(state(2, 0, 51), 2, 7, 52), Some(state(2, 7, 52)));
        assert_eq!((degraded(one, 1, 8, 90), restored(one, 1, 90)), (None, None), "its term is over");
        assert_eq!(restored(one, 3, 10), Some(state(3, 0, 10)), "a new leader begins with its own positions");
        assert!(one.is_other_than(8) && !one.is_other_than(7) && !state(2, 0, 50).is_other_than(8));
    }
}
