//! The rounds of the thread that flushes families when a flush is due, and releases log.
//!
//! | trigger | flushed families |
//! |---|---|
//! | a family has `store.write_buffer_size` bytes of unflushed rows | that family |
//! | more than `wal.max_total_wal_size` of flushable log | the family that needs the oldest part of it |
//! | the log refuses records, since the disk is full | every family, if necessary with the room of a spare log file |
//! | a write or a sync of a family's tree failed | that family, by a rewrite of its tree |
//! | a member of an atomic group was dropped | the group, to take the member's keys out of the tree |
//! | old versions or all rows occupy too much memory | every family: a deleted row stays until that is flushed |
//!
//! Flushable log is the part that flushes can release. For it, small families are re-logged together instead
//! (`relog.rs`), and the others are flushed one at a time.
//!
//! Nothing visible depends on this thread except memory, the length of the log, and how long an opening takes.
//! After a failure it waits before it tries again, longer each time; commits continue, up to twice the limit of
//! the log (`log/room.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use collie_base::{CfId, Lsn};
use collie_store::Family;

use crate::EngineError;
use crate::flush::Base;
use crate::flush::figures::FlushCause;
use crate::shared::Shared;

/// The pause after a round in which nothing was due.
const LOOK: Duration = Duration::from_millis(50);
/// The pause after the first failure.
const BACK_OFF_MIN: Duration = Duration::from_millis(200);
/// The longest pause after failures.
const BACK_OFF_MAX: Duration = Duration::from_secs(10);

/// Returns the rounds of the flusher thread.
pub(crate) fn flusher() -> impl FnMut(&Shared) -> Duration + Send {
    let mut back_off = BACK_OFF_MIN;
    move |shared| {
        let (pause, next) = match shared.flush_due() {
            Ok(true) => (Duration::ZERO, BACK_OFF_MIN),
            Ok(false) => (LOOK, BACK_OFF_MIN),
            Err(_counted) => (back_off, (back_off * 2).min(BACK_OFF_MAX)),
        };
        back_off = next;
        pause
    }
}

impl Shared {
    /// Flushes the names of families if there is no log to keep them (`no_log` N3).
    ///
    /// # Durability
    /// On return every name committed before the call is on disk.
    pub(crate) fn keep_names(&self) -> Result<(), EngineError> {
        if self.has_no_log() { self.flush(&[CfId::CATALOG], FlushCause::Call) } else { Ok(()) }
    }

    /// Returns the family that needs the oldest part of the log.
    pub(crate) fn oldest(&self) -> Option<CfId> {
        Base::oldest(&self.families).map(|(cf, _)| cf)
    }

    /// Notifies writers that flushes need the log from `start` on.
    pub(super) fn note_kept(&self, start: Lsn) {
        self.room.tell(start, self.log_bytes_max(), self.durable(), self.now());
    }

    /// Flushes these families in their state at the call, and releases log that is no longer needed.
    pub(crate) fn flush(&self, cfs: &[CfId], cause: FlushCause) -> Result<(), EngineError> {
        let base = self.writable_base()?;
        let log = self.txns.log();
        let end = log.wait_published()?;
        log.wait_durable(end)?;
        let flushed = base.flush(cfs, cause, &self.parts()).and_then(|()| self.give_up_log(base).map(|_| ()));
        self.room.note_trouble(base.trouble(&self.families));
        flushed
    }

    /// Notes whether the control file still has to be written.
    pub(crate) fn owe_control(&self, owes: bool) {
        self.owes_control.store(owes, Release);
    }

    /// Writes the control file if a full disk kept the opening from doing so: the log with its newest history must not
    /// be released before.
    fn pay_control(&self, base: &Base) -> Result<(), EngineError> {
        if !self.owes_control.load(Acquire) {
            return Ok(());
        }
        // The data directory is the first one.
        let Some(dir) = self.mode.leading().and_then(|leading| leading.place.dirs().next()) else { return Ok(()) };
        base.lending(&self.parts(), 0, || self.control().write(&self.env, dir))?;
        self.owe_control(false);
        Ok(())
    }

    /// Returns whether the log refuses records because the disk is full.
    fn is_disk_full(&self) -> bool {
        self.txns.log().wal().is_some_and(|wal| wal.full().is_some())
    }

    /// Releases log that is no longer needed, and lets writers continue if there is room for them now. Returns the
    /// position from which on flushes need the log.
    fn give_up_log(&self, base: &Base) -> Result<Option<Lsn>, EngineError> {
        self.pay_control(base)?;
        // On a full disk even a small step counts: small records fill a file long before as many positions have passed.
        let step_bytes = if self.is_disk_full() { 1 } else { self.fixed.segment_bytes };
        let start = base.cut_log(step_bytes, &self.parts())?;
        start.iter().for_each(|start| self.note_kept(*start));
        Ok(start)
    }

    /// Flushes the families that have unlogged rows.
    pub(crate) fn flush_unlogged(&self) -> Result<(), EngineError> {
        let families = self.families.all();
        let unlogged: Vec<CfId> =
            families.iter().filter(|family| family.has_unlogged()).map(|family| family.id()).collect();
        if self.fixed.avoid_flush_at_close || unlogged.is_empty() {
            Ok(())
        } else {
            self.flush(&unlogged, FlushCause::Close)
        }
    }

    /// Fails if a consumer of the log would miss unlogged writes.
    pub(crate) fn check_unlogged(&self) -> Result<(), EngineError> {
        if self.txns.log().wal().is_some_and(collie_wal::Log::has_consumers) && !self.fixed.allow_replication_holes {
            return Err(EngineError::InvalidArgument {
                what: "a consumer follows the log and would miss an unlogged write: have it logged, or set \
                       store.allow_replication_holes",
            });
        }
        Ok(())
    }

    /// Returns the limit of the log's length, in bytes (`wal.max_total_wal_size`).
    pub(crate) fn log_bytes_max(&self) -> u64 {
        self.log_limit.bytes(self.families.len(), self.live.write_buffer_bytes())
    }

    /// Changes `wal.max_total_wal_size`; 0 chooses. The next round of the flusher uses it.
    pub(crate) fn set_max_total_wal_size(&self, bytes: u64) {
        self.log_limit.ask(bytes);
    }

    /// Flushes the due families. Returns whether there were any.
    pub(crate) fn flush_due(&self) -> Result<bool, EngineError> {
        let Some(base) = self.base() else { return Ok(false) };
        let flushed = self.flush_due_of(base);
        self.room.note_trouble(base.trouble(&self.families));
        flushed
    }

    fn flush_due_of(&self, base: &Base) -> Result<bool, EngineError> {
        let before = base.stat();
        let parts = self.parts();
        let old_bytes = self.garbage.bytes();
        // On a full disk log can be released, and flushes make that possible.
        let for_memory = self.old.is_above_limit(old_bytes) || self.memory.wants_flush(old_bytes);
        let all = for_memory || self.is_disk_full();
        let write_buffer_bytes = self.live.write_buffer_bytes();
        let is_due = |family: &Arc<Family>| all || family.unflushed().bytes >= write_buffer_bytes;
        let due: Vec<CfId> =
            self.families.all().iter().filter(|family| is_due(family)).map(|family| family.id()).collect();
        // A tree that fails does not keep the others from being flushed.
        let failed = base.flush(&base.levels().to_be_replaced(), FlushCause::Failure, &parts);
        let cause = match (all, for_memory) {
            (true, true) => FlushCause::Memory,
            (true, false) => FlushCause::LogLimit,
            _ => FlushCause::Size,
        };
        let large = base.flush(&due, cause, &parts);
        let dropped = base.flush(&base.levels().to_be_rewritten(), FlushCause::Drop, &parts);
        let limit = self.log_bytes_max();
        while let Some(start) = self.give_up_log(base)? {
            // Flushes cannot release the part of the log that only open transactions need.
            let durable = self.durable();
            let long = durable.bytes_since(start);
            let Some(oldest) = Base::oldest(&self.families).filter(|_| long > limit) else { break };
            let below = Lsn::new(durable.get().saturating_sub(long / 2)).max(Lsn::new(oldest.1.get() + 1));
            let old = Base::needing(below, &self.families);
            base.advance(&old, limit, &parts)?;
            if Base::oldest(&self.families) == Some(oldest) {
                break; // nothing of it is durable yet, or others come first
            }
        }
        failed.and(large).and(dropped)?;
        let now = base.stat();
        Ok(now.flushes > before.flushes || now.relogs > before.relogs)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
pub(crate) mod tests;
