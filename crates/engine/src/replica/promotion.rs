//! Promotion: a replica becomes a primary in place. The database and its sessions stay open.
//!
//! ```text
//! nothing more is taken -> all of it is applied and shown -> own log flushed and ended -> opened again, with the
//! INCARNATION record of the new history in front -> that record durable -> control file -> writes allowed
//! ```
//!
//! | killed | the directory is |
//! |---|---|
//! | before the record is durable | a replica, as before the promotion |
//! | before the control file is replaced | a replica whose log ends with an empty history; positions are not reused |
//! | later | a primary's: it opens with [`Db::open`](crate::Db::open) |
//!
//! # Invariants
//! - P1. Everything received is applied and shown before the first write: no session sees less than before.
//! - P2. No write is allowed before the new history is durable, in the log and in the control file: no new commit is
//!   ever in the history of the old primary (REPL-2, REPL-10).
//! - P3. Transactions that the log has not ended never happened: the record of a history ends them, here as on every
//!   replica.
//! - P4. New transaction ids lie above every one in the log.
//!
//! A promotion blocks on a flush, and on reading the log to check that it is whole. Readers continue.
//! Checked by `tests/promotion.rs`: every crash state among the calls to the disk.

use collie_base::{HistoryId, Lsn, Term};
use collie_env::fault_point;
use collie_wal::{Ending, Log};

use crate::dir::control::{Control, History};
use crate::dir::log_place::LogPlace;
use crate::log::shown_wait::ShownWait;
use crate::open::CHECKPOINT;
use crate::redo::{Incarnation, tag};
use crate::replica::follower_log::FollowerLog;
use crate::replica::live::Follow as _;
use crate::replica::replica::{Inner, Opened, Phase};
use crate::shared::mode::Leading;
use crate::{Db, EngineError};

/// The reason in the INCARNATION record.
const PROMOTED: u8 = 2;

impl Inner {
    /// Promotes the replica; see [`Replica::promote`](crate::Replica::promote). The caller keeps `log` from receiving.
    pub(crate) fn promote(&self, log: &FollowerLog, term: Term) -> Result<Db, EngineError> {
        let mut phase = self.phase.lock();
        let (live, open) = match (&mut *phase, self.open.get()) {
            (Phase::Live(live), Some(open)) => (live, open),
            (Phase::Over(error), _) => return Err(error.clone()),
            _ => {
                return Err(EngineError::InvalidArgument {
                    what: "promotion of a replica whose base backup is not complete: it needs more of the primary's log",
                });
            }
        };
        if let Some(error) = live.failure() {
            return Err(error);
        }
        let mut control = open.following.control.lock().clone();
        if term <= control.term {
            return Err(EngineError::InvalidArgument { what: "promotion to a term that has begun before" });
        }
        // P1. All of it was durable on the primary before it was shipped, whatever `show` was.
        live.drain()?;
        let shared = &open.db.shared;
        let end = live.position();
        open.followed.shown.raise(end);
        shared.shown_moved(&open.followed);
        ShownWait::new(&open.followed.shown, end).block()?; // the last worker is about to publish
        // P4
        let raised = (0..100).any(|_| {
            shared.txns.tick(shared.now());
            shared.txns.begin_xids_at(open.followed.xid_limit())
        });
        if !raised {
            return Err(EngineError::Busy { why: "transactions with ids are open on the replica".to_owned() });
        }
        let place = LogPlace::find(&self.env, &self.dir, None, &[], &control)?;
        let time_us = live.time_us();
        let mut unfinished = live.take_unfinished();

        // From here on nothing is received any more: after a failure the replica has to be opened again.
        let ended = std::mem::replace(&mut *phase, Phase::Over(EngineError::Closed));
        drop(ended); // ends the workers
        // No flush in parallel may release log while the log is reopened, nor through the old log afterwards.
        let kept = shared.writable_base()?.keep_log();
        let became = self.begin_history(log, open, term, &mut control, &place);
        let wal = became.inspect_err(|error| *phase = Phase::Over(error.clone()))?;
        *open.following.control.lock() = control.clone();
        let log = shared.txns.log();
        log.promote(wal, self.options.log.slots);
        drop(kept);
        // No record of the new history ends them (T304).
        let ahead = unfinished.clear(open.following.large());
        ahead.into_iter().for_each(|cf| open.following.note_dropped(cf, end));
        let began = shared.log_xid_limit_now();
        began.inspect_err(|error| *phase = Phase::Over(error.clone()))?;
        shared.mode.promote(Leading::new(control, place, time_us, log, shared.now()));
        open.followed.shown.close();
        Ok(open.db.clone())
    }

    /// Ends the following log and opens it as a leading one, with a new history (P2, P3). Returns it.
    fn begin_history(
        &self,
        log: &FollowerLog,
        open: &Opened,
        term: Term,
        control: &mut Control,
        place: &LogPlace,
    ) -> Result<Log, EngineError> {
        let previous = control.histories.last().copied();
        let incarnation = Incarnation {
            term,
            history: HistoryId::new(self.env.random.u64()),
            previous_term: previous.map_or(control.term, |history| history.term),
            previous_history: previous.map_or(HistoryId::new(0), |history| history.id),
            reason: PROMOTED,
            wall_us: self.env.clock.wall_us(),
        };
        // The following log is flushed and ended before the directory is opened as a leading one.
        let end = log.follower().clone().promote()?;
        let base = open.db.shared.writable_base()?;
        let options = collie_wal::Options {
            first_record: Some((tag::INCARNATION, incarnation.encode())),
            known_start: Some(base.levels().log_start().max(CHECKPOINT)),
            known_durable: Some(end),
            ..self.options.log.clone()
        };
        place.claim(&self.env)?;
        let (wal, found) = Log::open(&self.env, place.dir(), options)?;
        assert!(
            found.ending == Ending::Unclean && found.end == end && found.next > end,
            "a log that followed up to {end} was found to end at {}, and would go on at {}",
            found.end,
            found.next
        );
        // P2: the INCARNATION record is durable before the control file names its history.
        wal.flush_wal(true)?;
        fault_point!("promote.record");
        place.sign(&self.env, control, &[])?;
        control.term = term;
        control.consistent_at = Lsn::ZERO;
        control.note_history(History::of(found.next, end, &incarnation));
        control.write(&self.env, &self.dir)?;
        fault_point!("promote.control");
        Ok(wal)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
