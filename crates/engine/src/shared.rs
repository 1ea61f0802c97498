//! `Shared`: the state that all handles of one open database share.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use collie_base::{CfId, Lsn, Xid};
use collie_env::Env;
use collie_store::{Family, Row};
use collie_sync::StripedCounter;
use collie_txn::{CommitLog as _, Txns};
use parking_lot::Mutex;

use crate::background::Background;
use crate::dir::control::Control;
use crate::dir::log_place::LogPlace;
use crate::families::Families;
use crate::flush::figures::FlushCause;
use crate::flush::scrub::Scrub;
use crate::flush::{Base, Parts};
use crate::gc::dropped::DroppedFamilies;
use crate::gc::garbage::{Garbage, Reach};
use crate::gc::memory::MemoryLimit;
use crate::gc::old_versions::OldVersions;
use crate::live_options::LiveOptions;
use crate::log::commit_times::CommitTimes;
use crate::log::limit::LogLimit;
use crate::log::no_log::Numbers;
use crate::log::quorum_note::QuorumNotes;
use crate::log::room::LogRoom;
use crate::log::time_marks::TimeMarks;
use crate::log::write_pause::WritePause;
use crate::log::{EngineLog, Manner};
use crate::redo::{encode_integers, tag};
use crate::replica::followed::Followed;
use crate::replica::promotion::Promoted;
use crate::session::serial_writes::SerialWrites;
use crate::session::writes::Writes;
use crate::{EngineError, Options};

/// Number of transaction ids that one XID_LIMIT record covers.
pub(crate) const XID_BLOCK: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Shared {
    // Constant after open.
    pub(crate) families: Arc<Families>,
    pub(crate) txns: Arc<Txns<EngineLog>>,
    pub(crate) garbage: Arc<Garbage>,
    /// Keys of validated commits, while a transaction validates in steps.
    pub(crate) serial_writes: SerialWrites,
    pub(crate) old: OldVersions,
    pub(crate) memory: MemoryLimit,
    pub(crate) env: Env,
    /// The LSM levels; `None` in a database opened read-only.
    pub(crate) base: Option<Base>,
    pub(crate) live: LiveOptions,
    log_limit: LogLimit,
    segment_bytes: u64,
    /// Writers wait here while flushes are behind.
    pub(crate) room: LogRoom,
    /// [`Options::avoid_flush_at_close`].
    avoid_flush_at_close: bool,
    /// [`Options::allow_replication_holes`].
    allow_replication_holes: bool,
    control: Control,
    /// The error of every write, if writes are refused; without effect once `promoted` is set.
    refusal: Option<EngineError>,
    /// Largest payload of one piece of a record.
    pub(crate) chunk_bytes: u64,
    /// [`Options::stamped_at_commit_max`].
    stamped_at_commit_max: usize,
    /// Present in a database without a log (`no_log.rs`).
    no_log: Option<Arc<Numbers>>,
    /// `None` in a database opened read-only, and in a replica.
    place: Option<LogPlace>,
    /// `None` in a database opened read-only, and in a replica.
    time_marks: Option<TimeMarks>,
    /// The quorum configuration, as QUORUM records set it. Grows with the log.
    pub(crate) quorum: QuorumNotes,
    /// For benchmarks.
    pub(crate) commit_times: CommitTimes,
    // Written once, by the promotion of a replica.
    promoted: OnceLock<Promoted>,
    // Written by committing sessions.
    /// Transactions that have committed with a record since the database was opened.
    pub(crate) commits: StripedCounter,
    /// Transactions that had an id and were rolled back.
    pub(crate) aborts: StripedCounter,
    // Written by the tick.
    xid_limit: AtomicU64,
    // Written by the opening, and by threads that release log.
    /// Whether the control file lacks the newest history, which then only the log has.
    owes_control: AtomicBool,
    // Written once, by close.
    pub(crate) closed: AtomicBool,
    // Written once, when another node leads.
    deposed: AtomicBool,
    // Written by a switchover.
    pub(crate) pause: WritePause,
    pub(crate) background: Mutex<Option<Background>>,
    pub(crate) flusher: Mutex<Option<Background>>,
    pub(crate) freer: Mutex<Option<Background>>,
    pub(crate) dropped: DroppedFamilies,
    pub(crate) scrubber: Mutex<Option<Background>>,
    /// Rot that was found.
    pub(crate) scrub: Scrub,
    /// Held while a copy of the database is made.
    pub(crate) checkpoints: Mutex<()>,
}

impl Shared {
    /// Returns the state of a database without LSM levels.
    pub(crate) fn new(
        families: Arc<Families>,
        txns: Arc<Txns<EngineLog>>,
        control: Control,
        chunk_bytes: u64,
        first_xid: Xid,
        options: &Options,
        env: &Env,
    ) -> Self {
        let old = OldVersions::new(options.old_version_memory, options.max_snapshot_age);
        let log_limit = LogLimit::new(options, txns.log().wal().and_then(collie_wal::Log::disk_bytes));
        Self {
            families,
            txns,
            garbage: Arc::default(),
            serial_writes: SerialWrites::default(),
            commits: StripedCounter::default(),
            aborts: StripedCounter::default(),
            old,
            memory: MemoryLimit::new(options, env),
            env: env.clone(),
            base: None,
            live: LiveOptions::new(options),
            log_limit,
            segment_bytes: options.log.segment_bytes,
            room: LogRoom::new(options.background, options.log.warnings.clone()),
            avoid_flush_at_close: options.avoid_flush_at_close,
            allow_replication_holes: options.allow_replication_holes,
            control,
            refusal: None,
            no_log: None,
            place: None,
            time_marks: None,
            promoted: OnceLock::new(),
            chunk_bytes,
            stamped_at_commit_max: options.stamped_at_commit_max,
            xid_limit: AtomicU64::new(first_xid.get()),
            owes_control: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            quorum: QuorumNotes::default(),
            commit_times: CommitTimes::default(),
            deposed: AtomicBool::new(false),
            pause: WritePause::default(),
            background: Mutex::new(None),
            flusher: Mutex::new(None),
            freer: Mutex::new(None),
            dropped: DroppedFamilies::default(),
            scrubber: Mutex::new(None),
            scrub: Scrub::new(options),
            checkpoints: Mutex::new(()),
        }
    }

    /// Adds the LSM levels.
    pub(crate) fn over_levels(self, base: Base) -> Self {
        let start = base.levels().log_start();
        let this = Self { base: Some(base), ..self };
        this.note_kept(start);
        this
    }

    /// Adds the quorum configuration from the log.
    pub(crate) fn with_quorum(self, quorum: QuorumNotes) -> Self {
        Self { quorum, ..self }
    }

    /// Adds the numbers of a database without a log, if it has none.
    pub(crate) fn without_log(self, no_log: Option<Arc<Numbers>>) -> Self {
        Self { no_log, ..self }
    }

    /// Returns whether there is no log, so that only flushed writes survive.
    #[inline]
    pub(crate) fn has_no_log(&self) -> bool {
        self.no_log.is_some()
    }

    /// Flushes the names of families if there is no log to keep them (`no_log` N3).
    ///
    /// # Durability
    /// On return every name committed before the call is on disk.
    pub(crate) fn keep_names(&self) -> Result<(), EngineError> {
        if self.has_no_log() { self.flush(&[CfId::CATALOG], FlushCause::Call) } else { Ok(()) }
    }

    /// Adds the place of the log.
    pub(crate) fn in_place(self, place: LogPlace) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Makes the database write time marks, none of them below `wall_us`.
    pub(crate) fn marking_time_from(self, wall_us: i64) -> Self {
        Self { time_marks: Some(self.time_marks_from(wall_us)), ..self }
    }

    /// Returns a writer of time marks, none of them below `wall_us`.
    pub(crate) fn time_marks_from(&self, wall_us: i64) -> TimeMarks {
        let end = self.txns.log().next().unwrap_or(Lsn::ZERO);
        TimeMarks::new(wall_us, end, self.now())
    }

    fn time_marks(&self) -> Option<&TimeMarks> {
        self.time_marks.as_ref().or_else(|| self.promoted.get().map(|promoted| &promoted.time_marks))
    }

    /// Returns the place of the log; `None` in a database opened read-only, and in a replica.
    pub(crate) fn place(&self) -> Option<&LogPlace> {
        self.place.as_ref().or_else(|| self.promoted.get().map(|promoted| &promoted.place))
    }

    /// Returns the identity of the directory.
    pub(crate) fn control(&self) -> &Control {
        self.promoted.get().map_or(&self.control, |promoted| &promoted.control)
    }

    /// Returns whether the database follows another one's log. During a promotion the log may become its own a moment
    /// earlier; its identity changes in one step, with this answer.
    pub(crate) fn is_replica(&self) -> bool {
        self.promoted.get().is_none() && self.txns.log().has_followed()
    }

    /// Ends being a replica: the followed log is now this database's own.
    pub(crate) fn promoted(&self, promoted: Promoted) {
        assert!(self.promoted.set(promoted).is_ok(), "a replica is promoted once");
    }

    /// Frees the dropped families that no snapshot shows any more.
    pub(crate) fn free_dropped(&self) {
        if !self.dropped.is_empty() && self.dropped.free_below(self.txns.horizon()) {
            self.free_due();
        }
    }

    /// Writes a time mark, for a later restore to a time; returns the position behind it.
    pub(crate) fn mark_time(&self) -> Result<Lsn, EngineError> {
        let marks = self.time_marks();
        marks.map_or(Ok(Lsn::ZERO), |marks| marks.write(self.txns.log(), &*self.env.clock, self.now()))
    }

    /// Makes the database refuse every write with this error.
    pub(crate) fn refusing_writes(self, refusal: EngineError) -> Self {
        Self { refusal: Some(refusal), ..self }
    }

    /// Returns whether every write is refused.
    pub(crate) fn is_read_only(&self) -> bool {
        self.refusal.is_some() && self.promoted.get().is_none()
    }

    /// Fails if every write is refused.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<(), EngineError> {
        match &self.refusal {
            Some(refusal) if self.promoted.get().is_none() => Err(refusal.clone()),
            _ => Ok(()),
        }
    }

    /// Makes every later commit of a transaction that wrote fail.
    pub(crate) fn depose(&self) {
        self.deposed.store(true, Release);
        self.pause.end();
    }

    /// Fails once another node leads.
    #[inline]
    pub(crate) fn check_leads(&self) -> Result<(), EngineError> {
        if self.deposed.load(Acquire) { Err(EngineError::Replica) } else { Ok(()) }
    }

    /// Returns the LSM levels to write to. A replica has them too, although it takes no writes.
    pub(crate) fn writable_base(&self) -> Result<&Base, EngineError> {
        match &self.base {
            Some(base) => Ok(base),
            None => self.check_writable().and(Err(EngineError::Closed)),
        }
    }

    /// Makes new snapshots begin at the read horizon of the followed log, which may have moved.
    pub(crate) fn shown_moved(&self, followed: &Followed) {
        // The visible position need not be on this node's disk: the primary has it on disk.
        let position = followed.shown.position();
        self.txns.acknowledge(position);
        followed.shown_times.note(position, || self.env.clock.now_ns());
        followed.shown.wake();
    }

    /// Returns the family that needs the oldest part of the log.
    pub(crate) fn oldest(&self) -> Option<CfId> {
        Base::oldest(&self.families).map(|(cf, _)| cf)
    }

    /// Notifies writers that flushes need the log from `start` on.
    fn note_kept(&self, start: Lsn) {
        self.room.tell(start, self.log_bytes_max(), self.durable(), self.now());
    }

    /// Returns an empty write set for a session.
    pub(crate) fn writes(&self) -> Writes {
        Writes::new(&self.families, &self.garbage, &self.txns, self.stamped_at_commit_max)
    }

    /// Frees the rows of a family, and its garbage.
    pub(crate) fn drop_family(&self, cf: CfId) {
        self.txns.stamp_waiting(); // so that no other thread holds its versions
        // The log that its rows need stays needed until MANIFEST has the drop.
        if let Some(base) = &self.base {
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
        if let Some(freer) = &*self.freer.lock() {
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
        if let Some(marks) = self.time_marks().filter(|_| !self.is_read_only()) {
            let _ = marks.write_due(self.txns.log(), &*self.env.clock, self.now()); // as above
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

    /// Returns the time since a fixed moment.
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.env.clock.now_ns())
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            families: &self.families,
            garbage: &self.garbage,
            txns: &self.txns,
            quorum: &self.quorum,
            warnings: self.room.warnings(),
        }
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
        let Some(dir) = self.place().and_then(|place| place.dirs().next()) else { return Ok(()) };
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
        let step_bytes = if self.is_disk_full() { 1 } else { self.segment_bytes };
        let start = base.cut_log(step_bytes, &self.parts())?;
        start.iter().for_each(|start| self.note_kept(*start));
        Ok(start)
    }

    /// Flushes the families that have unlogged rows.
    pub(crate) fn flush_unlogged(&self) -> Result<(), EngineError> {
        let families = self.families.all();
        let unlogged: Vec<CfId> =
            families.iter().filter(|family| family.has_unlogged()).map(|family| family.id()).collect();
        if self.avoid_flush_at_close || unlogged.is_empty() { Ok(()) } else { self.flush(&unlogged, FlushCause::Close) }
    }

    /// Fails if a consumer of the log would miss unlogged writes.
    pub(crate) fn check_unlogged(&self) -> Result<(), EngineError> {
        if self.txns.log().wal().is_some_and(collie_wal::Log::has_consumers) && !self.allow_replication_holes {
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
        let Some(base) = &self.base else { return Ok(false) };
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
        if self.is_read_only() { Ok(()) } else { self.log_xid_limit_now() }
    }

    /// Does the same as [`Shared::log_xid_limit`], even before writes are allowed.
    pub(crate) fn log_xid_limit_now(&self) -> Result<(), EngineError> {
        let next = self.txns.next_xid().get();
        let limit = self.xid_limit.load(Relaxed);
        if next.saturating_add(XID_BLOCK / 2) <= limit {
            return Ok(());
        }
        let limit = next.saturating_add(XID_BLOCK);
        if let Some(numbers) = &self.no_log {
            numbers.reserve_ids(Xid::new(limit), self.families.next_id())?;
        }
        self.txns.log().with_writer_that(Manner::GIVES_BACK, |writer| {
            writer.append(tag::XID_LIMIT, &[&encode_integers(&[limit])])
        })?;
        self.xid_limit.fetch_max(limit, Relaxed);
        Ok(())
    }

    pub(crate) fn durable(&self) -> Lsn {
        self.txns.log().durable()
    }
}
