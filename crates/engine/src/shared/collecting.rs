//! The rounds of the thread that collects garbage, and of the one that frees dropped families.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use collie_base::{CfId, Lsn, Xid};
use collie_store::{Family, Row};

use crate::EngineError;
use crate::gc::garbage::Reach;
use crate::log::Manner;
use crate::redo::{XID_BLOCK, encode_integers, tag};
use crate::shared::Shared;

/// The longest pause of the collector after rounds without work, unless its interval with work is longer.
const TICK_MAX: Duration = Duration::from_millis(64);

/// Returns the rounds of the collector.
pub(crate) fn collector() -> impl FnMut(&Shared) -> Duration + Send {
    let mut pause = Duration::ZERO;
    move |shared| {
        let interval = shared.live.gc_interval();
        pause = if shared.tick() > 0 { interval } else { (pause * 2).clamp(interval, TICK_MAX.max(interval)) };
        pause
    }
}

/// The pause of the freeing thread, which is woken for each dropped family.
const IDLE: Duration = Duration::from_secs(60);

/// Returns the rounds of the thread that frees families.
pub(crate) fn freer() -> impl FnMut(&Shared) -> Duration + Send {
    |shared| if shared.free_next() { Duration::ZERO } else { IDLE }
}

impl Shared {
    /// Frees the dropped families that no snapshot shows any more.
    pub(crate) fn free_dropped(&self) {
        if !self.dropped.is_empty() && self.dropped.free_below(self.txns.horizon()) {
            self.free_due();
        }
    }

    /// Frees the rows of a family, and its garbage.
    pub(crate) fn drop_family(&self, cf: CfId) {
        self.txns.stamp_waiting(); // so that no other thread holds its versions
        // The log that its rows need stays needed until MANIFEST has the drop.
        if let Some(base) = self.base() {
            base.family_goes(cf, &self.parts()); // before it leaves memory
        }
        let mut gone = None;
        self.garbage.while_nobody_cleans(|| gone = self.families.remove_counted(cf));
        // The collector looks families up by id, and does not find this one any more.
        if let Some(family) = gone {
            self.garbage.freed(family.clear());
            self.families.freed(&family);
        }
        self.dropped.gone(cf);
    }

    /// Frees a family as [`Shared::drop_family`] does, on the thread for that; here if there is none.
    pub(crate) fn free_family(&self, cf: CfId) {
        self.dropped.free(cf);
        self.free_due();
    }

    /// Wakes the thread that frees families; frees the due ones here if there is none.
    fn free_due(&self) {
        if let Some(freer) = &*self.threads.freer.lock() {
            return freer.wake();
        }
        while self.free_next() {}
    }

    /// Frees one due family; returns whether there was one.
    pub(crate) fn free_next(&self) -> bool {
        let Some(next) = self.dropped.due() else { return false };
        self.drop_family(next);
        true
    }

    /// Does one round of background work. Returns how much there was.
    pub(crate) fn tick(&self) -> usize {
        let before = self.txns.horizon();
        let unstamped = self.txns.unstamped();
        let horizon = self.txns.tick(self.now());
        // An error of the log is ignored: the next round tries again, and the ids of commits are in the log anyway.
        let _ = self.log_xid_limit();
        self.free_dropped();
        if let Some(leading) = self.mode.leading() {
            let _ = leading.time_marks.write_due(self.txns.log(), &*self.env.clock, self.now()); // as above
        }
        let cleaned = self.clean(Reach::Due);
        self.limit_old_versions();
        self.limit_memory();
        let is_waited_for = self.room.tick(self.durable(), self.now());
        cleaned
            + usize::from(is_waited_for)
            + usize::from(horizon != before)
            + usize::from(unstamped > 0)
            + self.garbage.len().0
    }

    fn clean(&self, reach: Reach) -> usize {
        // The list is cloned: it is read under a pin, which must not last as long as cleaning.
        let live = self.txns.with_live(Clone::clone);
        self.garbage.note_round(self.now());
        self.garbage.clean(&self.families, &live, reach)
    }

    /// Frees invisible versions of a row that was just written, if that is worthwhile.
    pub(crate) fn prune(&self, family: &Family, row: &Row) {
        if row.is_grown() {
            let pruned = self.txns.with_live(|live| family.prune(row, live));
            self.garbage.freed(pruned.map_or(0, |pruned| pruned.bytes));
        }
    }

    /// Enforces the limits of old versions (O1).
    fn limit_old_versions(&self) {
        if self.old.has_age_limit() {
            let held = self.txns.snapshots(self.now());
            for held in held.iter().filter(|held| self.old.is_too_old(held.age)) {
                self.txns.cancel_snapshot(held, self.garbage.bytes());
            }
        }
        if !self.old.is_above_limit(self.garbage.bytes()) {
            return self.old.refuse_writers(false);
        }
        self.txns.tick(self.now());
        self.clean(Reach::All);
        if !self.old.is_above_limit(self.garbage.bytes()) {
            return self.old.refuse_writers(false);
        }
        let held = self.txns.snapshots(self.now());
        let mut keeping = held.iter().filter(|held| held.can_be_cancelled).peekable();
        self.old.refuse_writers(keeping.peek().is_none());
        if keeping.peek().is_none() {
            self.txns.log().flush_soon(); // the rest cannot be freed before it is durable
        }
        keeping.find(|held| self.txns.cancel_snapshot(held, self.garbage.bytes()));
    }

    /// Enforces the memory limit of all rows.
    pub(crate) fn limit_memory(&self) {
        let count = || self.families.memory_bytes();
        if self.memory.look(count) {
            self.txns.tick(self.now());
            self.clean(Reach::All);
            self.memory.look(count);
        }
    }

    /// Logs a bound of transaction ids, half a block before the last bound is reached.
    pub(crate) fn log_xid_limit(&self) -> Result<(), EngineError> {
        if self.check_writable().is_err() { Ok(()) } else { self.log_xid_limit_now() }
    }

    /// Does the same as [`Shared::log_xid_limit`], even before writes are allowed.
    pub(crate) fn log_xid_limit_now(&self) -> Result<(), EngineError> {
        let next = self.txns.next_xid().get();
        let limit = self.xid_limit.load(Relaxed);
        if next.saturating_add(XID_BLOCK / 2) <= limit {
            return Ok(());
        }
        let limit = next.saturating_add(XID_BLOCK);
        if let Some(numbers) = self.mode.numbers() {
            numbers.reserve_ids(Xid::new(limit), self.families.next_id())?;
        }
        self.txns.log().with_writer_that(Manner::GIVES_BACK, |writer| {
            writer.append(tag::XID_LIMIT, &[&encode_integers(&[limit])])
        })?;
        self.xid_limit.fetch_max(limit, Relaxed);
        Ok(())
    }

    /// Writes a time mark, for a later restore to a time; returns the position behind it.
    pub(crate) fn mark_time(&self) -> Result<Lsn, EngineError> {
        let leading = self.mode.leading();
        leading.map_or(Ok(Lsn::ZERO), |leading| leading.time_marks.write(self.txns.log(), &*self.env.clock, self.now()))
    }
}
