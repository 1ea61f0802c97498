//! A replica of the engine as [`Target`].

use std::path::Path;

use collie_base::Lsn;
use collie_engine::{EngineError, ErrorKind, HistoryStart, Replica, Seed};
use collie_env::Env;
use collie_wal::Follower;

use super::history_of;
use crate::{
    identity::Identity,
    packet::History,
    standby::{Cloned, Positions, Target, TargetError},
};

/// A replica that follows.
#[derive(Clone, Debug)]
pub struct EngineTarget {
    replica: Replica,
}

impl EngineTarget {
    /// Over an open replica.
    pub fn new(replica: Replica) -> Self {
        Self { replica }
    }
}

impl Target for EngineTarget {
    fn identity(&self) -> Identity {
        let (term, histories) = self.replica.histories();
        Identity {
            cluster: self.replica.cluster_id(),
            node: self.replica.node_id(),
            term,
            histories: histories.into_iter().map(history_of).collect(),
            end: self.replica.end(),
        }
    }

    fn positions(&self) -> Positions {
        let replica = &self.replica;
        let received = replica.follower().map_or(Lsn::ZERO, Follower::received);
        Positions { received, durable: replica.durable(), applied: replica.shown() }
    }

    fn tail(&self) -> Result<(u32, u32), TargetError> {
        let Some(log) = self.replica.follower() else { return Ok((0, 0)) };
        let check = log.tail_check();
        check.map(|check| (check.bytes, check.crc32c)).map_err(|error| TargetError::Failed(error.to_string()))
    }

    fn receive(&self, start: Lsn, prev_end: Lsn, records: &[u8]) -> Result<Lsn, TargetError> {
        self.replica.receive(start, prev_end, records).map_err(|error| target_error(&error))
    }

    fn set_show(&self, show: Lsn) {
        self.replica.set_show(show);
    }

    fn queue_bytes(&self) -> u64 {
        self.replica.queue_bytes()
    }
}

fn target_error(error: &EngineError) -> TargetError {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::NoSpace => TargetError::Full(text),
        ErrorKind::Poisoned | ErrorKind::Closed | ErrorKind::Io => TargetError::Failed(text),
        _ => TargetError::Stream(text),
    }
}

/// Makes the directory that a base backup filled one that opens as a replica, with `node` as its id.
///
/// # Durability
/// On disk when it returns.
///
/// # Errors
/// The disk's.
pub fn plant(cloned: &Cloned, node: u64, dir: &Path, env: &Env) -> Result<(), EngineError> {
    let start = |history: &History| HistoryStart {
        term: history.term,
        history: history.id,
        start: history.start,
        prev_end: history.prev_end,
    };
    let seed = Seed {
        cluster_id: cloned.primary.cluster,
        node_id: node,
        term: cloned.primary.term,
        histories: cloned.primary.histories.iter().map(start).collect(),
        consistent_at: cloned.consistent,
    };
    seed.plant(env, dir)
}
