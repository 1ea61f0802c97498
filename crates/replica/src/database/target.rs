//! A replica of the engine as [`Target`].

use std::{future::pending, path::Path, sync::Arc};

use collie_base::{Lsn, Term};
use collie_engine::{EngineError, ErrorKind, HistoryStart, Replica, Seed};
use collie_env::Env;
use collie_sync::mutant;
use collie_wal::{Follower, Mark};
use parking_lot::Mutex;
use tokio::select;

use super::{
    hearing::{DelaysHeard, Hearing},
    history_of,
};
use crate::{
    compare::Held,
    identity::Identity,
    packet::{DelayWindow, History},
    reads::ReadInbox,
    standby::{Cloned, Positions, Succession, Target, TargetError},
    term::Terms,
};

/// A replica of the engine that follows a primary.
#[derive(Clone, Debug)]
pub struct EngineTarget {
    replica: Replica,
    terms: Option<Arc<Terms>>,
    hearing: Arc<Mutex<Hearing>>,
    succession: Arc<Succession>,
    reads: Option<Arc<ReadInbox>>,
}

impl EngineTarget {
    /// Creates a target for an open replica.
    pub fn new(replica: Replica) -> Self {
        Self { replica, terms: None, hearing: Arc::default(), succession: Arc::default(), reads: None }
    }

    /// Returns the primary's durable position in the last message from it, and when that message arrived, in
    /// nanoseconds of this machine's clock.
    pub fn last_heard(&self) -> Option<(Lsn, u64)> {
        self.hearing.lock().last()
    }

    /// Returns the primary's last report of how much later readers here see commits, measured on its clock, and
    /// when that report arrived on this machine's clock.
    pub fn last_delay(&self) -> Option<(DelayWindow, u64)> {
        self.hearing.lock().last_delay()
    }

    /// Returns for how long readers here have been owed the oldest commit that they do not see, in nanoseconds,
    /// according to the primary's last report; `None` before the first report.
    pub fn last_owed_ns(&self) -> Option<u64> {
        self.hearing.lock().last_owed_ns()
    }

    /// Returns the delays that the primary reported after the first `seen` of them, and the number reported so
    /// far.
    pub fn delays_since(&self, seen: u64) -> (DelaysHeard, u64) {
        self.hearing.lock().delays_since(seen)
    }

    /// Returns for how long, at `now_ns` on this machine's clock, the oldest commit known to be on the primary's
    /// disk has not been applied here, in nanoseconds; 0 if all are applied.
    pub fn oldest_unapplied_ns(&self, now_ns: u64) -> u64 {
        let applied = self.replica.applied();
        self.hearing.lock().oldest_ns(applied, now_ns)
    }

    /// Asks the primary for sampled reads, and passes them to `reads`.
    #[must_use]
    pub fn reading(self, reads: Arc<ReadInbox>) -> Self {
        Self { reads: Some(reads), ..self }
    }

    /// Refuses everything of a term below the one that `terms` has promised.
    #[must_use]
    pub fn going_by(self, terms: Arc<Terms>) -> Self {
        Self { terms: Some(terms), ..self }
    }
}

impl Target for EngineTarget {
    fn identity(&self) -> Identity {
        let (term, histories) = self.replica.histories();
        Identity {
            cluster: self.replica.cluster_id(),
            node: self.replica.node_id(),
            term: term.max(self.promised()),
            histories: histories.into_iter().map(history_of).collect(),
            end: self.replica.end(),
        }
    }

    fn positions(&self) -> Positions {
        let replica = &self.replica;
        let received = replica.follower().map_or(Lsn::ZERO, Follower::received);
        let durable = if mutant!("ACKED_BEFORE_FLUSH") { received } else { replica.durable() };
        Positions { received, durable, applied: replica.shown() }
    }

    fn tail(&self) -> Result<(u32, u32), TargetError> {
        let Some(log) = self.replica.follower() else { return Ok((0, 0)) };
        let check = log.tail_check();
        check.map(|check| (check.bytes, check.crc32c)).map_err(|error| TargetError::Failed(error.to_string()))
    }

    fn receive(&self, start: Lsn, prev_end: Lsn, records: &[u8]) -> Result<Lsn, TargetError> {
        let received = self.replica.receive(start, prev_end, records);
        received.map_err(|error| match self.replica.failure() {
            Some(failure @ EngineError::Corruption { lsn, .. }) => {
                TargetError::Damaged { at: lsn, why: failure.to_string() }
            }
            _ => target_error(&error),
        })
    }

    fn promised(&self) -> Term {
        self.terms.as_ref().map_or(Term::new(0), |terms| terms.promised())
    }

    fn succession(&self) -> Option<&Arc<Succession>> {
        Some(&self.succession)
    }

    fn reads(&self) -> Option<&Arc<ReadInbox>> {
        self.reads.as_ref()
    }

    fn heard(&self, durable: Lsn, now_ns: u64) {
        self.hearing.lock().heard(durable, now_ns);
    }

    fn delayed(&self, delay: Option<DelayWindow>, owed_ns: u64, now_ns: u64) {
        self.hearing.lock().delayed(delay, owed_ns, now_ns);
    }

    fn take_shown_times(&self, shown: Lsn, out: &mut Vec<(Lsn, u64)>) {
        self.replica.take_shown_times(shown, out);
    }

    fn set_show(&self, show: Lsn) {
        self.replica.set_show(show);
    }

    async fn moves(&self, told: Positions) {
        let next = |lsn: Lsn| lsn.plus(1);
        // The log is waited for only up to its end: once all of it is on disk, the next packet brings more. The
        // limit is the end of the log, not of its files, because the last records may still be in memory.
        let follower = self.replica.follower().filter(|log| told.durable < log.end());
        let flushed = follower.map(|follower| follower.log().reached(Mark::Durable, next(told.durable)));
        let shown = self.replica.db().map(|db| db.wait_shown(next(told.applied)));
        // A failed log and a stopped replay are reported where records are passed to them, so both are ignored
        // here.
        let flushed = async {
            let Some(flushed) = flushed else { return pending().await };
            if flushed.await.is_err() {
                pending().await
            }
        };
        let shown = async {
            match shown {
                None => pending().await,
                Some(None) => {}
                Some(Some(wait)) => {
                    if wait.await.is_err() {
                        pending().await
                    }
                }
            }
        };
        select! {
            () = flushed => {}
            () = shown => {}
        }
    }

    fn hold(&self, at: Lsn) -> Option<Box<dyn Held>> {
        let held: Box<dyn Held> = Box::new(self.replica.hold_state(at).ok()??);
        Some(held)
    }

    fn crc_between(&self, from: Lsn, to: Lsn) -> Result<Option<u32>, TargetError> {
        let Some(log) = self.replica.follower() else { return Ok(None) };
        log.log().crc_between(from, to).map_err(|error| TargetError::Failed(error.to_string()))
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

/// Turns a directory that a base backup has filled into one that opens as a replica with the id `node`.
///
/// # Durability
/// On disk when it returns.
///
/// # Errors
/// A file could not be written.
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
