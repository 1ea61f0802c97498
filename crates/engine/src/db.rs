//! `Db`: one open database directory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use collie_base::{CfId, HistoryId, Lsn, Term, Xid};
use collie_env::Env;
use collie_txn::{CommitLog as _, HeldSnapshot, LockPicture, XidFate, XidSnapshot};

use crate::flush::Base;
use crate::flush_figures::FlushCause;
use crate::open;
use crate::redo::tag;
use crate::replica::HeldState;
use crate::replica::hash::state_hash;
use crate::shared::Shared;
use crate::writes::Fates;
use crate::{
    Backup, CatalogHook, CheckpointOptions, Confirmed, CopyWatch, DrawnCommit, EngineError, Family, FlushStat,
    HistoryStart, HistoryState, LevelStat, LevelsCopy, OpenProgress, OpenReport, Options, QuorumNote, Session,
    ShownWait, StallStat, UnflushedStat,
};

/// One open database directory. Clones share it; the last one to go closes the log as well as it can.
#[derive(Clone, Debug)]
pub struct Db {
    pub(crate) shared: Arc<Shared>,
}

/// Counters of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineStat {
    /// Families in memory.
    pub families: u64,
    /// Rows in memory, deleted ones not yet removed included.
    pub rows: u64,
    /// Rows with old versions that wait to be cleaned.
    pub garbage_rows: u64,
    /// Rows with old versions that are kept for a snapshot.
    pub held_rows: u64,
    /// Bytes of memory that old versions take up, about.
    pub old_version_bytes: u64,
    /// Bytes of memory that rows and all their versions take up, about.
    pub memory_bytes: u64,
    /// How many they may (`store.memory_limit`); `None`: no limit.
    pub memory_limit_bytes: Option<u64>,
    /// Writes that were refused for it.
    pub memory_refused: u64,
    /// Snapshots held.
    pub snapshots: u64,
    /// The lowest snapshot held, if any.
    pub oldest_snapshot: Option<Lsn>,
    /// What was superseded below was or will be freed.
    pub horizon: Lsn,
    /// Versions of commits that are not stamped with them yet: readers look their commit up.
    pub unstamped_versions: u64,
    /// Sessions that wait for a lock.
    pub waiting: u64,
}

impl Db {
    /// Opens the database in `dir`, or makes one, and replays its log. Calls `progress` now and then meanwhile. With
    /// [`Options::read_only`] nothing in the directory is changed, and every write is refused. Under
    /// `wal.recovery_mode = skip_any_corrupted_records` too, and what is there is every transaction that is whole in what the log
    /// still has.
    ///
    /// # Durability
    /// What the log held durably is there when this returns; what was acknowledged is part of it.
    ///
    /// # Errors
    /// When the directory is foreign, open elsewhere, of a newer format, damaged, or cannot be read or written.
    pub fn open(
        dir: &Path,
        options: Options,
        env: Env,
        progress: &mut dyn FnMut(&OpenProgress),
    ) -> Result<(Self, OpenReport), EngineError> {
        open::open(dir, options, &env, progress).map(|(shared, report)| (Self { shared }, report))
    }

    /// Opens a session.
    ///
    /// # Errors
    /// [`EngineError::Closed`], [`EngineError::TooManySessions`].
    pub fn session(&self) -> Result<Session, EngineError> {
        if self.shared.closed.load(Acquire) {
            return Err(EngineError::Closed);
        }
        Session::new(&self.shared)
    }

    /// Returns whether [`Db::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Acquire)
    }

    /// Returns the family, made empty when absent.
    pub fn family(&self, cf: CfId) -> Arc<Family> {
        self.shared.families.get_or_make(cf)
    }

    /// Returns the number of rows of a family, deleted ones not yet removed included; 0 when there is no such family, and
    /// unlike [`Db::family`] it makes none.
    pub fn rows_in(&self, cf: CfId) -> u64 {
        self.shared.families.get(cf).map_or(0, |family| family.stat().rows)
    }

    /// Returns how many levels an access to a row of a family descends, about ([`Family::index_depth`]); 0 when there is no such family, of which
    /// it makes none.
    pub fn index_depth(&self, cf: CfId) -> u32 {
        self.shared.families.get(cf).map_or(0, |family| family.index_depth())
    }

    /// Makes an empty family under an id that no record of the log ever named. It exists in the log from its first
    /// committed row on.
    pub fn create_family(&self) -> CfId {
        self.shared.families.create()
    }

    /// Returns the ids of the families that have a name in the catalog ([`kv`](crate::kv), [`sql_name_row`](crate::sql_name_row)).
    ///
    /// # Errors
    /// [`EngineError::BadName`], [`EngineError::TooManySessions`], [`EngineError::Closed`].
    pub fn named_families(&self) -> Result<Vec<CfId>, EngineError> {
        let named = crate::kv::named(self)?;
        Ok(named.into_iter().map(|(_, cf)| cf).collect())
    }

    /// Frees the rows of a family. Call it once the transaction that dropped the family is committed and no snapshot
    /// below it is used on the family any more.
    pub fn drop_family(&self, cf: CfId) {
        self.shared.drop_family(cf);
    }

    /// [`Db::drop_family`], by a thread of the engine: this returns at once, and the rows take up memory a little longer. What has
    /// not been freed at the close is there at the next open, as a family that nobody names.
    pub fn free_family(&self, cf: CfId) {
        self.shared.free_family(cf);
    }

    /// Returns the families in memory, in order of their ids.
    pub fn families(&self) -> Vec<CfId> {
        self.shared.families.ids()
    }

    /// Flushes families to their levels: afterwards these hold what was committed to them before the call, and the log that
    /// nothing else needs is given up. A family that is not there or has not changed costs nothing.
    ///
    /// # Durability
    /// The log is durable up to the call, the levels are on return.
    ///
    /// # Progress
    /// Waits for the log, and for other flushes; readers and writers go on.
    ///
    /// # Errors
    /// The log's, the levels': then the rows are in memory and in the log as before. [`EngineError::OpenedReadOnly`],
    /// [`EngineError::Salvaged`], [`EngineError::Closed`], [`EngineError::TooManySessions`].
    pub fn flush_cf(&self, cfs: &[CfId]) -> Result<(), EngineError> {
        self.flush_for(cfs, FlushCause::Call)
    }

    fn flush_for(&self, cfs: &[CfId], cause: FlushCause) -> Result<(), EngineError> {
        if self.shared.closed.load(Acquire) {
            return Err(EngineError::Closed);
        }
        self.shared.flush(cfs, cause)
    }

    /// Flushes a family and merges its levels into one run, without what was deleted or replaced.
    ///
    /// # Durability
    /// As of [`Db::flush_cf`].
    ///
    /// # Progress
    /// Waits for other jobs of the family's tree; later ones wait for it. Readers and writers go on.
    ///
    /// # Errors
    /// As of [`Db::flush_cf`].
    pub fn compact(&self, cf: CfId) -> Result<(), EngineError> {
        self.flush_cf(&[cf])?;
        let levels = self.shared.writable_base()?.levels();
        let Some(tree) = levels.tree_of(cf) else { return Ok(()) };
        match levels.compact(tree) {
            Ok(_merged) => Ok(()),
            Err(_dropped_or_written_anew) if levels.tree_of(cf) != Some(tree) => Ok(()),
            Err(error) => Err(EngineError::levels(error)),
        }
    }

    /// Flushes every family, as [`Db::flush_cf`].
    ///
    /// # Errors
    /// As there.
    pub fn flush_all(&self) -> Result<(), EngineError> {
        self.flush_for(&self.families(), FlushCause::Checkpoint)
    }

    /// Copies the database as it is to the directory `to`, which is not there yet or empty: it opens by itself, with every commit that
    /// returned before the call and perhaps some that came during it. The log is copied; tables are linked where both are on
    /// one file system, and copied elsewhere, unless the options say that nothing is to be shared. `watch` hears how far it is and
    /// may stop it. See [`verify_backup`](crate::verify_backup) and [`restore`](crate::restore).
    ///
    /// # Durability
    /// On disk when it returns. After an error or a crash there is no `to`, or it is empty as it was.
    ///
    /// # Progress
    /// Waits for the log, for another copy being made, and on reading and writing the copy; readers and writers go on. Flushes
    /// and compactions wait while tables are linked. The log is kept meanwhile, whatever its limit.
    ///
    /// # Errors
    /// [`EngineError::BadTarget`], [`EngineError::Io`] when the disk is full or refuses, the log's, the levels';
    /// [`EngineError::Cancelled`] when `watch` says so; [`EngineError::OpenedReadOnly`], [`EngineError::Salvaged`],
    /// [`EngineError::Closed`].
    pub fn checkpoint(
        &self,
        to: &Path,
        options: CheckpointOptions,
        watch: CopyWatch<'_>,
    ) -> Result<Backup, EngineError> {
        if self.shared.closed.load(Acquire) {
            return Err(EngineError::Closed);
        }
        self.shared.checkpoint(to, options, watch)
    }

    /// Links or copies the levels alone to the directory `levels` in `to`, which is not there, or empty: what a replica begins with that
    /// gets the log as a stream. The caller has the log kept from before the call on.
    ///
    /// # Durability
    /// As [`Db::checkpoint`].
    ///
    /// # Progress
    /// As [`Db::checkpoint`], but for the log, which is neither waited for nor read.
    ///
    /// # Errors
    /// As [`Db::checkpoint`].
    pub fn copy_levels(
        &self,
        to: &Path,
        options: CheckpointOptions,
        watch: CopyWatch<'_>,
    ) -> Result<LevelsCopy, EngineError> {
        if self.shared.closed.load(Acquire) {
            return Err(EngineError::Closed);
        }
        self.shared.copy_levels(to, options, watch)
    }

    /// Flushes what the flushing thread would flush now, for a database opened without its threads. Returns whether there was
    /// anything.
    ///
    /// # Errors
    /// As of [`Db::flush_cf`].
    pub fn flush_due(&self) -> Result<bool, EngineError> {
        self.shared.flush_due()
    }

    /// Returns the counters of flushing; zeros in a database opened read-only.
    pub fn flush_stat(&self) -> FlushStat {
        self.shared.base.as_ref().map_or_else(FlushStat::default, Base::stat)
    }

    /// Returns how writers waited for flushes because the log was too long.
    pub fn stall_stat(&self) -> StallStat {
        self.shared.room.stat(self.shared.durable())
    }

    /// Returns how the levels stand; empty in a database opened read-only.
    pub fn level_stat(&self) -> LevelStat {
        self.shared.base.as_ref().map_or_else(LevelStat::default, |base| base.levels().stat())
    }

    /// Returns the figures of the database, family by family, as [`kv::Db::stats`](crate::kv::Db::stats) does, but without waiting for
    /// flushes and compactions: a tree at which one is busy has the figures that it had when somebody asked last.
    pub fn stats_now(&self) -> crate::kv::Stats {
        let levels = self.shared.base.as_ref().map_or_else(LevelStat::default, |base| base.levels().stat_now());
        crate::kv::Stats::of(self, levels)
    }

    /// Returns what the levels of a family lack.
    pub fn unflushed(&self, cf: CfId) -> UnflushedStat {
        let none = UnflushedStat { rows: 0, bytes: 0, since: None };
        self.shared.families.get(cf).map_or(none, |family| family.unflushed())
    }

    /// Returns the length of log, in bytes, above which families are flushed so that it can be cut (`wal.max_total_wal_size`,
    /// or what it chooses).
    pub fn log_bytes_max(&self) -> u64 {
        self.shared.log_bytes_max()
    }

    /// Changes `wal.max_total_wal_size` ([`Options::max_total_wal_size`]) until the database is closed; 0 chooses.
    pub fn set_max_total_wal_size(&self, bytes: u64) {
        self.shared.set_max_total_wal_size(bytes);
    }

    /// Returns the position below which everything is on disk.
    pub fn durable(&self) -> Lsn {
        self.shared.durable()
    }

    /// Returns the position below which no failover takes a commit back: what so many replicas as are asked for have on their disks.
    /// [`Db::durable`] where they are not counted.
    pub fn settled(&self) -> Lsn {
        self.shared.txns.log().settled()
    }

    /// Has replies wait for replicas from now on, or (`false`) do without: who waits is let go, and told so
    /// ([`Ack::is_unconfirmed`](crate::Ack::is_unconfirmed)). Nothing happens without [`Options::quorum`].
    pub fn count_replicas(&self, counted: bool) {
        let log = self.shared.txns.log();
        log.replicas().into_iter().for_each(|settled| settled.set_counted(counted, || log.durable()));
    }

    /// Takes note of how far so many replicas as are asked for have come, and wakes who waited for that. What is below what was noted
    /// before changes nothing.
    pub fn confirm(&self, confirmed: Confirmed) {
        let log = self.shared.txns.log();
        log.replicas().into_iter().for_each(|settled| settled.confirm(confirmed, || log.durable()));
    }

    /// Notes in the log who is asked for commits from here on; returns where the record ends. Whoever opens this directory, or a replica
    /// that has the record, finds it ([`Db::quorum_note`]).
    ///
    /// # Durability
    /// None on return; with the next flush, which is asked for.
    ///
    /// # Errors
    /// The log's.
    pub fn note_quorum(&self, note: &QuorumNote) -> Result<Lsn, EngineError> {
        let log = self.shared.txns.log();
        let record = note.encode(self.shared.env.clock.wall_us());
        let append = || log.with_writer(|writer| writer.append(tag::QUORUM, &[&record])).map(|at| (at.start, at.end));
        let end = self.shared.quorum.append(note, append)?;
        log.flush_soon();
        Ok(end)
    }

    /// Returns who is asked for commits, as the newest record of it says that was appended, received or read here; `None`: no record
    /// says.
    pub fn quorum_note(&self) -> Option<QuorumNote> {
        self.shared.quorum.newest().map(|(_, note)| note)
    }

    /// Returns whether the log takes no records just now ([`Db::hold_log`]).
    pub fn is_log_held(&self) -> bool {
        self.shared.txns.log().is_held()
    }

    /// Blocks until everything below `lsn` is on disk.
    ///
    /// # Errors
    /// The log stopped before.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<(), EngineError> {
        Ok(self.shared.txns.log().wait_durable(lsn)?)
    }

    /// Says whether replicas are asked for commits at all: while they are not, the levels that wait for them mean
    /// [`CommitLevel::Local`](crate::CommitLevel::Local). At first they are. Nothing happens without [`Options::quorum`].
    pub fn ask_replicas(&self, asked: bool) {
        self.shared.txns.log().replicas().into_iter().for_each(|settled| settled.set_asked(asked));
    }

    /// Returns how far replicas have confirmed; `None` without [`Options::quorum`].
    pub fn confirmed(&self) -> Option<Confirmed> {
        self.shared.txns.log().replicas().map(|settled| settled.confirmed())
    }

    /// Returns the position below which every commit is visible to new snapshots.
    pub fn boundary(&self) -> Lsn {
        self.shared.txns.log().boundary()
    }

    /// Flushes the log once on this thread if nobody else does and something is there to flush; returns whether it did.
    /// For a caller that has nothing better to do than to wait for its own commit.
    pub fn try_lead_flush(&self) -> bool {
        // A failed flush poisons the log, which tells every waiter by itself.
        let lead = self.shared.txns.log().wal().and_then(collie_wal::Log::try_lead);
        lead.is_some_and(|lead| lead.run().is_ok())
    }

    /// Draws about one in `one_in` of the commits whose replies leave from now on, rounded up to a power of two; 0: none, as it is at first.
    /// Those that were drawn wait for [`Db::take_drawn`], some thousands at the most.
    pub fn draw_commits(&self, one_in: u32) {
        self.shared.txns.log().draw().set(one_in, &self.shared.env.clock);
    }

    /// Moves the commits that were drawn since the last call to `out`.
    pub fn take_drawn(&self, out: &mut Vec<DrawnCommit>) {
        self.shared.txns.log().draw().take(out);
    }

    /// Returns the log, for its figures and tools; `None` in a database opened read-only or without a log.
    pub fn log(&self) -> Option<&collie_wal::Log> {
        self.shared.txns.log().wal().filter(|_| !self.shared.has_no_log())
    }

    /// Returns whether every write is refused: with [`EngineError::OpenedReadOnly`] after [`Options::read_only`], with
    /// [`EngineError::Salvaged`] under `wal.recovery_mode = skip_any_corrupted_records`.
    pub fn is_read_only(&self) -> bool {
        self.shared.is_read_only()
    }

    /// Returns the id of the database, drawn when it was made and the same in every copy of it.
    pub fn cluster_id(&self) -> u128 {
        self.shared.control().cluster
    }

    /// Returns the id of this directory, drawn when it was made.
    pub fn node_id(&self) -> u64 {
        self.shared.control().node
    }

    /// Returns the term and the newest of the histories that begin in the log, or did, oldest first, as of the open or the promotion: of
    /// a replica the histories that were received. Those that no log reaches may be forgotten.
    pub fn histories(&self) -> (Term, Vec<HistoryStart>) {
        let control = self.shared.control();
        let histories: Vec<HistoryStart> = match self.shared.txns.log().followed() {
            Some(followed) => followed.histories(),
            None => control.histories.iter().map(|known| (*known).into()).collect(),
        };
        // A replica is of the term of the newest history that it has received.
        let received = histories.iter().map(|history| history.term).max();
        (received.map_or(control.term, |term| term.max(control.term)), histories)
    }

    /// Returns what is known here of a history. What a replica says of one holds for every position that [`Db::shown`] returned before.
    pub fn history_state(&self, history: HistoryId) -> HistoryState {
        match self.shared.txns.log().followed() {
            Some(followed) => followed.history_state(history),
            None => HistoryState::of(history, &self.histories().1),
        }
    }

    /// Returns where read-only snapshots begin that are taken from now on: they show every commit whose record ends at or below. It
    /// only grows. Of a replica it is the smaller of what is applied and what its primary lets be shown, else what no crash takes
    /// back together with what was acknowledged all the same.
    pub fn shown(&self) -> Lsn {
        if let Some(followed) = self.shared.txns.log().followed() {
            // Whoever moved it may not have told snapshots yet.
            self.shared.txns.acknowledge(followed.shown.position());
        }
        self.shared.txns.settled()
    }

    /// Returns the end of what a replica has received; `None`: it is none.
    pub fn received(&self) -> Option<Lsn> {
        self.shared.txns.log().followed().map(|followed| followed.own.end())
    }

    /// Returns what time it was on the primary of a replica when it had written what is shown here, within a second or so, in
    /// microseconds since 1970; `None`: nothing that tells it came since the open, or the database is no replica.
    pub fn replay_time_us(&self) -> Option<i64> {
        self.shared.txns.log().followed().and_then(|followed| followed.time.at(followed.shown.position()))
    }

    /// Returns whether the database follows the log of another one ([`Replica`](crate::Replica)). Once it says no of one that is promoted,
    /// [`Db::histories`] has the new term.
    pub fn is_replica(&self) -> bool {
        self.shared.is_replica()
    }

    /// Returns whether the database is a replica that may show more than its primary has let be seen: what its log had when it was opened,
    /// until the primary, or another one, says that so much may be seen. With a quorum a failover may take that back.
    pub fn is_unsettled(&self) -> bool {
        self.shared.txns.log().followed().is_some_and(|followed| !followed.shown.is_settled())
    }

    /// Lets no transaction that wrote commit from here on ([`EngineError::Replica`]), until the database is opened again: another node leads.
    /// Commits whose record is in the log by now stand, and are answered.
    pub fn refuse_commits(&self) {
        self.shared.depose();
    }

    /// Waits until new snapshots show every commit below `lsn`: of a replica, that replay has come there. `None`: they do.
    pub fn wait_shown(&self, lsn: Lsn) -> Option<ShownWait> {
        let followed = self.shared.txns.log().followed().filter(|_| self.shown() < lsn)?;
        Some(ShownWait::new(&followed.shown, lsn).telling(&self.shared))
    }

    /// Has `hook` told of each change of the catalog that a replica replays; of another database nothing is told. Returns the position from which
    /// on snapshots show the changes that were replayed before: replay may be ahead of what is shown, so whoever reads the catalog now and has
    /// the hook tell the rest reads it there ([`Db::rows_at`]), not in a snapshot that is older.
    pub fn on_catalog_change(&self, hook: CatalogHook) -> Lsn {
        self.shared.txns.log().followed().map_or(Lsn::ZERO, |followed| followed.set_hook(hook))
    }

    /// Visits the rows of a family as commits below `position` have left them, in order of the keys: of a replica, also before a snapshot shows
    /// them, once they are in place. The caller holds a snapshot at or below it, or is the hook of [`Db::on_catalog_change`] at the position
    /// of its change. `visit` runs under a pin: it must not wait.
    pub fn rows_at(&self, cf: CfId, position: Lsn, visit: &mut dyn FnMut(&[u8], &[u8])) {
        if let Some(family) = self.shared.families.get(cf) {
            let fates = Fates(&self.shared.txns);
            family.states(position, &fates, &mut |state| visit(state.key, state.value));
        }
    }

    /// Returns the position of a new snapshot of what no crash takes back, and the state hash there: one number for all rows of
    /// all families but `skipped`, their keys, values and commits, the same on every node that has the same. Reads every row.
    ///
    /// # Errors
    /// [`EngineError::TooManySessions`].
    pub fn state_hash(&self, skipped: &[CfId]) -> Result<(Lsn, u64), EngineError> {
        let holder = self.shared.txns.hold_settled()?;
        let (snapshot, fates) = (holder.snapshot(), Fates(&self.shared.txns));
        let skipped = [skipped, &self.shared.dropped.hidden_from(snapshot)].concat();
        Ok((snapshot, state_hash(&self.shared.families, snapshot, &fates, &skipped)))
    }

    /// Holds what no crash takes back now, so that it can be compared with another node that is at the same position.
    ///
    /// # Errors
    /// [`EngineError::TooManySessions`].
    pub fn hold_state(&self) -> Result<HeldState, EngineError> {
        HeldState::new(&self.shared, &[])
    }

    /// Returns, of a replica, the families of which rows may be missing here, by id, each with the position since which: the primary wrote them
    /// without its log, as [`Options::allow_replication_holes`] let it. They are not compared.
    pub fn holes(&self) -> Vec<(CfId, Lsn)> {
        let followed = self.shared.txns.log().followed();
        let mut holes: Vec<(CfId, Lsn)> =
            followed.map(|followed| followed.holes.all().into_iter().collect()).unwrap_or_default();
        holes.sort_unstable();
        holes
    }

    /// Returns how many transactions have committed with a record since the database was opened; of a replica none did.
    pub fn commits(&self) -> u64 {
        u64::try_from(self.shared.commits.sum()).unwrap_or(0)
    }

    /// Returns how many transactions that had begun to write were rolled back since the database was opened.
    pub fn aborts(&self) -> u64 {
        u64::try_from(self.shared.aborts.sum()).unwrap_or(0)
    }

    /// Returns the counters.
    pub fn stat(&self) -> EngineStat {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let (families, rows) = self.shared.families.count();
        let (snapshots, oldest_snapshot) = self.shared.txns.snapshots_held();
        EngineStat {
            families,
            rows,
            garbage_rows: count(self.shared.garbage.len().0),
            held_rows: count(self.shared.garbage.len().1),
            old_version_bytes: self.shared.garbage.bytes(),
            memory_bytes: self.shared.families.memory_bytes(),
            memory_limit_bytes: self.shared.memory.limit_bytes(),
            memory_refused: self.shared.memory.refused(),
            snapshots: count(snapshots),
            oldest_snapshot,
            horizon: self.shared.txns.horizon(),
            unstamped_versions: self.shared.txns.unstamped(),
            waiting: count(self.shared.txns.waiting()),
        }
    }

    /// Returns every lock that is held or waited for, row by row where rows are waited for.
    pub fn lock_picture(&self) -> LockPicture {
        self.shared.txns.lock_picture()
    }

    /// Returns the slots ([`CancelHandle::slot`](crate::CancelHandle::slot)) of the sessions that the session in `slot`
    /// waits for.
    pub fn slots_in_the_way(&self, slot: usize) -> Vec<usize> {
        self.shared.txns.slots_in_the_way(slot)
    }

    /// Tells the snapshot at `at` in xids, as far as it is remembered.
    pub fn xid_snapshot(&self, at: Lsn) -> Option<XidSnapshot> {
        self.shared.txns.xid_snapshot(at)
    }

    /// Returns how the transaction with this id ended, as far as it is remembered.
    pub fn xid_fate(&self, xid: Xid) -> XidFate {
        self.shared.txns.xid_fate(xid)
    }

    /// Returns the snapshots in force, lowest first: who holds each ([`CancelHandle::slot`](crate::CancelHandle::slot)), and
    /// how old it is as far as rounds of background work have seen it. The first keeps most of [`Db::old_version_bytes`].
    pub fn snapshots(&self) -> Vec<HeldSnapshot> {
        self.shared.txns.snapshots(self.shared.now())
    }

    /// Returns how many rows have old versions that are kept for `snapshot` or were not looked at since a commit above it.
    pub fn rows_kept_for(&self, snapshot: Lsn) -> u64 {
        u64::try_from(self.shared.garbage.kept_for(snapshot)).unwrap_or(u64::MAX)
    }

    /// Returns the bytes of memory that old versions take up, about while commits and pruning go on. One load per stripe of
    /// the counter.
    pub fn old_version_bytes(&self) -> u64 {
        self.shared.garbage.bytes()
    }

    /// One round of background work, for a database opened without its thread. Returns how much there was.
    pub fn tick(&self) -> usize {
        self.shared.tick()
    }

    /// Stops the background threads, writes everything and closes the log. Families with rows that are not in the log are flushed, those
    /// of a database without a log too, unless [`Options::avoid_flush_at_close`] says otherwise; nothing else is: the log has it. Sessions that are open can still
    /// read.
    ///
    /// # Errors
    /// The log's; the levels', after the log was closed. Closing twice is no error.
    pub fn close(&self) -> Result<(), EngineError> {
        if self.shared.closed.swap(true, Release) {
            return Ok(());
        }
        self.shared.pause.end();
        self.shared.room.close(self.shared.durable(), self.shared.now());
        self.shared.txns.log().replicas().into_iter().for_each(|settled| settled.close());
        let scrubber = self.shared.scrubber.lock().take();
        drop(scrubber);
        let flusher = self.shared.flusher.lock().take();
        drop(flusher);
        let freer = self.shared.freer.lock().take();
        drop(freer);
        let background = self.shared.background.lock().take();
        drop(background);
        let flushed = self.shared.flush_unlogged();
        let closed = self.shared.txns.log().wal().map_or(Ok(()), collie_wal::Log::close);
        if let Some(place) = self.shared.place() {
            place.release();
        }
        closed?;
        flushed
    }
}
