//! `Db`: one open database directory.
//!
//! | file | holds |
//! |---|---|
//! | `live_options` | options that change while it is open |
//! | `switchover` | the primary's side of a switchover |
//! | `state_hash` | the state hash, by which two databases are compared |
//! | `held_state` | a state to compare, held at one position |
//! | `scrub` | the search for rot |

mod held_state;
mod live_options;
mod scrub;
pub(crate) mod state_hash;
mod switchover;

pub use self::held_state::HeldState;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::task::Poll;

use collie_base::{CfId, HistoryId, Lsn, Term, Xid};
use collie_env::Env;
use collie_txn::{CommitLog as _, HeldSnapshot, LockPicture, XidFate, XidSnapshot};

use crate::db::state_hash::state_hash;
use crate::flush::Base;
use crate::flush::figures::FlushCause;
use crate::log::txn_statuses::TxnStatuses;
use crate::open;
use crate::redo::tag;
use crate::shared::Shared;
use crate::{
    Backup, CatalogHook, CheckpointOptions, Confirmed, CopyWatch, DrawnCommit, EngineError, Family, FlushStat,
    HistoryStart, HistoryState, LevelStat, LevelsCopy, OpenProgress, OpenReport, Options, QuorumNote, Session,
    ShownWait, StallStat, UnflushedStat,
};

/// One open database directory. Clones share it; dropping the last one closes the log as well as possible.
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
    /// Rows in memory, including deleted ones that are not removed yet.
    pub rows: u64,
    /// Rows with old versions that wait to be cleaned.
    pub garbage_rows: u64,
    /// Rows with old versions that are kept for a snapshot.
    pub held_rows: u64,
    /// Approximate bytes of memory that old versions occupy.
    pub old_version_bytes: u64,
    /// Approximate bytes of memory that rows and all their versions occupy.
    pub memory_bytes: u64,
    /// The limit of `memory_bytes` (`store.memory_limit`); `None` if there is none.
    pub memory_limit_bytes: Option<u64>,
    /// Writes that were refused at that limit.
    pub memory_refused: u64,
    /// Snapshots in force.
    pub snapshots: u64,
    /// The lowest snapshot in force, if there is any.
    pub oldest_snapshot: Option<Lsn>,
    /// Versions that were superseded below it have been or will be freed.
    pub horizon: Lsn,
    /// Versions of committed transactions without a stamp yet, so that readers look up the status of the
    /// transaction.
    pub unstamped_versions: u64,
    /// Sessions that wait for a lock.
    pub waiting: u64,
}

impl Db {
    /// Opens the database in `dir`, or creates one, and replays its log. Calls `progress` now and then during that
    /// time. With [`Options::read_only`] nothing in the directory is changed, and every write is refused. The same
    /// holds under `wal.recovery_mode = skip_any_corrupted_records`; the database then has every transaction that
    /// is whole in the remaining log.
    ///
    /// # Durability
    /// Everything that was durable in the log is in the database on return, and so is every commit that was
    /// acknowledged as durable.
    ///
    /// # Errors
    /// The directory is foreign, open elsewhere, of a newer format or damaged, or cannot be read or written.
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

    /// Returns the family; creates it empty if it does not exist.
    pub fn family(&self, cf: CfId) -> Arc<Family> {
        self.shared.families.get_or_make(cf)
    }

    /// Returns the number of rows of a family, including deleted ones that are not removed yet; 0 if there is no
    /// such family. Unlike [`Db::family`] it creates none.
    pub fn rows_in(&self, cf: CfId) -> u64 {
        self.shared.families.get(cf).map_or(0, |family| family.stat().rows)
    }

    /// Returns the approximate number of index levels that an access to a row of a family descends
    /// ([`Family::index_depth`]); 0 if there is no such family. It creates none.
    pub fn index_depth(&self, cf: CfId) -> u32 {
        self.shared.families.get(cf).map_or(0, |family| family.index_depth())
    }

    /// Creates an empty family under an id that no record of the log has ever named. The log contains it from its
    /// first committed row on.
    pub fn create_family(&self) -> CfId {
        self.shared.families.create()
    }

    /// Returns the names and ids of the families that have a name, including SQL's, in order of the names
    /// ([`Session::create_named_family`], [`sql_name_row`](crate::sql_name_row)).
    ///
    /// # Errors
    /// [`EngineError::BadName`], [`EngineError::TooManySessions`], [`EngineError::Closed`].
    pub fn named_families(&self) -> Result<Vec<(String, CfId)>, EngineError> {
        self.session()?.list_named_families()
    }

    /// Frees the rows of a family. The caller must know that the transaction which dropped the family is
    /// committed, and that no snapshot below that commit is used on the family any more.
    pub fn drop_family(&self, cf: CfId) {
        self.shared.drop_family(cf);
    }

    /// Frees a family like [`Db::drop_family`], but on a thread of the engine: this call returns at once, and the
    /// rows occupy memory a little longer. A family that has not been freed by the close is there again at the
    /// next opening, without a name.
    pub fn free_family(&self, cf: CfId) {
        self.shared.free_family(cf);
    }

    /// Waits until these families are freed, if rows occupy at least half of [`Options::memory_limit`]; else returns at
    /// once. After it the memory of the families counts for no write any more.
    ///
    /// # Progress
    /// Waits for the thread that frees families, a second for some hundred thousand rows. It returns when the database
    /// is closed, too.
    pub async fn wait_freed(&self, cfs: &[CfId]) {
        let shared = &self.shared;
        let is_scarce = shared.memory.limit_bytes().is_some_and(|limit| shared.families.memory_bytes() >= limit / 2);
        if !is_scarce {
            return;
        }
        // The thread is looked for after the waker is left, so that the close wakes it.
        std::future::poll_fn(|cx| match shared.dropped.poll_gone(cfs, cx) {
            Poll::Pending if shared.threads.freer.lock().is_none() => Poll::Ready(()),
            polled => polled,
        })
        .await;
    }

    /// Returns the families in memory, in order of their ids.
    pub fn families(&self) -> Vec<CfId> {
        self.shared.families.ids()
    }

    /// Flushes families to their LSM levels. Afterwards these hold every commit to the families from before the
    /// call, or with a quorum every quorum-durable one, and log that nothing else needs is released. A family that
    /// does not exist or has not changed costs nothing.
    ///
    /// # Durability
    /// The log is durable up to the call, and the LSM levels are durable on return.
    ///
    /// # Progress
    /// Waits for the log and for other flushes; readers and writers continue.
    ///
    /// # Errors
    /// Those of the log and of the LSM levels; then the rows are in memory and in the log as before.
    /// [`EngineError::OpenedReadOnly`], [`EngineError::Salvaged`], [`EngineError::Closed`].
    pub fn flush_cf(&self, cfs: &[CfId]) -> Result<(), EngineError> {
        self.flush_for(cfs, FlushCause::Call)
    }

    fn flush_for(&self, cfs: &[CfId], cause: FlushCause) -> Result<(), EngineError> {
        if self.shared.closed.load(Acquire) {
            return Err(EngineError::Closed);
        }
        self.shared.flush(cfs, cause)
    }

    /// Flushes a family and merges the LSM levels of its tree into one run, without deleted and replaced entries.
    ///
    /// # Durability
    /// As for [`Db::flush_cf`].
    ///
    /// # Progress
    /// Waits for other jobs of the family's tree; later ones wait for this one. Readers and writers continue.
    ///
    /// # Errors
    /// As for [`Db::flush_cf`].
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

    /// Flushes every family, as [`Db::flush_cf`] does.
    ///
    /// # Errors
    /// As for [`Db::flush_cf`].
    pub fn flush_all(&self) -> Result<(), EngineError> {
        self.flush_for(&self.families(), FlushCause::Checkpoint)
    }

    /// Copies the current database to the directory `to`, which must be absent or empty. The copy opens by itself,
    /// with every commit that returned before the call and perhaps some from during it. The log is copied. Tables
    /// are linked if both directories are on one file system and the options allow sharing, and copied otherwise.
    /// `watch` receives the progress and may stop the copy. See [`verify_backup`](crate::verify_backup) and
    /// [`restore`](crate::restore).
    ///
    /// # Durability
    /// The copy is on disk on return. After an error or a crash `to` is absent, or empty as it was.
    ///
    /// # Progress
    /// Waits for the log, for another copy that is being made, and for reading and writing the copy; readers and
    /// writers continue. Flushes and compactions wait while tables are linked. During the copy the log is kept
    /// whatever its limit.
    ///
    /// # Errors
    /// [`EngineError::BadTarget`], [`EngineError::Io`] if the disk is full or fails, those of the log and of the
    /// LSM levels; [`EngineError::Cancelled`] if `watch` stops the copy; [`EngineError::InvalidArgument`] on a
    /// replica or without a log; [`EngineError::OpenedReadOnly`], [`EngineError::Salvaged`],
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

    /// Links or copies only the LSM levels to the directory `levels` in `to`, which must be absent or empty. A
    /// replica that receives the log as a stream starts from them. The caller keeps the log pinned from before the
    /// call on.
    ///
    /// # Durability
    /// As for [`Db::checkpoint`].
    ///
    /// # Progress
    /// As for [`Db::checkpoint`], except that it neither waits for the log nor reads it.
    ///
    /// # Errors
    /// As for [`Db::checkpoint`].
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

    /// Flushes everything that the flusher thread would flush now, for a database opened without its threads.
    /// Returns whether there was anything to flush.
    ///
    /// # Errors
    /// As for [`Db::flush_cf`].
    pub fn flush_due(&self) -> Result<bool, EngineError> {
        self.shared.flush_due()
    }

    /// Returns the counters of flushing; zeros in a database opened read-only.
    pub fn flush_stat(&self) -> FlushStat {
        self.shared.base().map_or_else(FlushStat::default, Base::stat)
    }

    /// Returns how long and how often writers waited for flushes because the log was too long.
    pub fn stall_stat(&self) -> StallStat {
        self.shared.room.stat(self.shared.durable())
    }

    /// Returns the state of the LSM levels; empty in a database opened read-only.
    pub fn level_stat(&self) -> LevelStat {
        self.shared.base().map_or_else(LevelStat::default, |base| base.levels().stat())
    }

    /// Returns the figures of a family's rows that its LSM levels lack.
    pub fn unflushed(&self, cf: CfId) -> UnflushedStat {
        let none = UnflushedStat { rows: 0, bytes: 0, since: None };
        self.shared.families.get(cf).map_or(none, |family| family.unflushed())
    }

    /// Returns the length of the log, in bytes, above which families are flushed so that the log can be cut
    /// (`wal.max_total_wal_size`, or the value that it chooses).
    pub fn log_bytes_max(&self) -> u64 {
        self.shared.log_bytes_max()
    }

    /// Changes `wal.max_total_wal_size` ([`Options::max_total_wal_size`]) until the database is closed; with 0 the
    /// engine chooses.
    pub fn set_max_total_wal_size(&self, bytes: u64) {
        self.shared.set_max_total_wal_size(bytes);
    }

    /// Returns the position below which everything is on disk.
    pub fn durable(&self) -> Lsn {
        self.shared.durable()
    }

    /// Returns the quorum-durable position, below which no failover takes a commit back: a quorum has everything
    /// below it on its disks. It follows [`Db::durable`] while replicas are not counted.
    pub fn settled(&self) -> Lsn {
        self.shared.txns.log().settled()
    }

    /// Makes replies wait for replicas from now on or, with `false`, leave without them; commits that are waiting
    /// are then released and marked as unconfirmed ([`Ack::is_unconfirmed`](crate::Ack::is_unconfirmed)). Has no
    /// effect without [`Options::quorum`].
    pub fn count_replicas(&self, counted: bool) {
        let log = self.shared.txns.log();
        log.replicas().into_iter().for_each(|settled| settled.set_counted(counted, || log.durable()));
    }

    /// Notes how far the replicas that the quorum requires have come, and wakes the commits that waited for it.
    /// Positions below those noted before have no effect.
    pub fn confirm(&self, confirmed: Confirmed) {
        let log = self.shared.txns.log();
        log.replicas().into_iter().for_each(|settled| settled.confirm(confirmed, || log.durable()));
    }

    /// Logs which replicas commits ask for from here on; returns the end of the record. A later opening of this
    /// directory finds it, and so does a replica that has the record ([`Db::quorum_note`]).
    ///
    /// # Durability
    /// None on return; the record is durable with the next flush, which is requested.
    ///
    /// # Errors
    /// Those of the log.
    pub fn note_quorum(&self, note: &QuorumNote) -> Result<Lsn, EngineError> {
        let log = self.shared.txns.log();
        let record = note.encode(self.shared.env.clock.wall_us());
        let append = || log.with_writer(|writer| writer.append(tag::QUORUM, &[&record])).map(|at| (at.start, at.end));
        let end = self.shared.quorum.append(note, append)?;
        log.flush_soon();
        Ok(end)
    }

    /// Returns which replicas commits ask for, by the newest such record that was appended, received or read here;
    /// `None` if there is none.
    pub fn quorum_note(&self) -> Option<QuorumNote> {
        self.shared.quorum.newest().map(|(_, note)| note)
    }

    /// Returns whether the log takes no records at the moment ([`Db::hold_log`]).
    pub fn is_log_held(&self) -> bool {
        self.shared.txns.log().is_held()
    }

    /// Blocks until everything below `lsn` is on disk.
    ///
    /// # Errors
    /// The log stopped before that.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<(), EngineError> {
        Ok(self.shared.txns.log().wait_durable(lsn)?)
    }

    /// Sets whether commits ask for replicas at all, as they initially do. While they do not, the levels that wait
    /// for replicas mean [`CommitLevel::Local`](crate::CommitLevel::Local). Has no effect without
    /// [`Options::quorum`].
    pub fn ask_replicas(&self, asked: bool) {
        self.shared.txns.log().replicas().into_iter().for_each(|settled| settled.set_asked(asked));
    }

    /// Returns how far replicas have confirmed the log; `None` without [`Options::quorum`].
    pub fn confirmed(&self) -> Option<Confirmed> {
        self.shared.txns.log().replicas().map(|settled| settled.confirmed())
    }

    /// Returns the position below which every commit is visible to new snapshots.
    pub fn boundary(&self) -> Lsn {
        self.shared.txns.log().boundary()
    }

    /// Flushes the log once on this thread if no other thread does and there is something to flush; returns
    /// whether it did. It is meant for a caller that would otherwise only wait for its own commit.
    pub fn try_lead_flush(&self) -> bool {
        // A failed flush poisons the log, which notifies every waiter.
        let lead = self.shared.txns.log().wal().and_then(collie_wal::Log::try_lead);
        lead.is_some_and(|lead| lead.run().is_ok())
    }

    /// Draws about one in `one_in` of the commits whose replies leave from now on, with `one_in` rounded up to a
    /// power of two; for 0, the initial value, none. Drawn commits, some thousands at most, wait for
    /// [`Db::take_drawn`].
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
        self.shared.check_writable().is_err()
    }

    /// Returns the random id of the database, which all of its copies share.
    pub fn cluster_id(&self) -> u128 {
        self.shared.control().cluster
    }

    /// Returns the random id of this directory.
    pub fn node_id(&self) -> u64 {
        self.shared.control().node
    }

    /// Returns the term and the newest histories, oldest first: those that begin in the log or in log that was
    /// released, as known at the opening or the promotion; on a replica those that it has received. Histories that
    /// no log reaches may be missing.
    pub fn histories(&self) -> (Term, Vec<HistoryStart>) {
        let control = self.shared.control();
        let histories: Vec<HistoryStart> = match self.shared.txns.log().followed() {
            Some(followed) => followed.histories(),
            None => control.histories.iter().map(|known| (*known).into()).collect(),
        };
        // A replica has the term of the newest history that it has received.
        let received = histories.iter().map(|history| history.term).max();
        (received.map_or(control.term, |term| term.max(control.term)), histories)
    }

    /// Returns the state of a history as this node knows it. On a replica the answer covers every position that
    /// [`Db::shown`] returned before the call.
    pub fn history_state(&self, history: HistoryId) -> HistoryState {
        match self.shared.txns.log().followed() {
            Some(followed) => followed.history_state(history),
            None => HistoryState::of(history, &self.histories().1),
        }
    }

    /// Returns the position at which read-only snapshots begin from now on: they show every commit whose record
    /// ends at or below it. It only grows. On a replica it is the visible position, the lower of the watermark of
    /// replay and the position up to which its primary permits reads. Elsewhere it is the quorum-durable position
    /// or, if that is higher, the end of the last commit that was acknowledged without being quorum-durable.
    pub fn shown(&self) -> Lsn {
        if let Some(followed) = self.shared.txns.log().followed() {
            // The thread that moved the position may not have passed it to snapshots yet.
            self.shared.txns.acknowledge(followed.shown.position());
        }
        self.shared.txns.settled()
    }

    /// Returns the end of the log that a replica has received; `None` if this is no replica.
    pub fn received(&self) -> Option<Lsn> {
        self.shared.txns.log().followed().map(|followed| followed.own.end())
    }

    /// Returns the time, on the clock of a replica's primary, at which the primary had written everything that is
    /// visible here, within a second or so, in microseconds since 1970; `None` if no mark of the time has come
    /// since the opening, or the database is no replica.
    pub fn replay_time_us(&self) -> Option<i64> {
        self.shared.txns.log().followed().and_then(|followed| followed.time.at(followed.shown.position()))
    }

    /// Returns whether the database follows the log of another one ([`Replica`](crate::Replica)). Once it returns
    /// `false` for a promoted replica, [`Db::histories`] has the new term.
    pub fn is_replica(&self) -> bool {
        self.shared.mode.is_replica()
    }

    /// Returns whether the database is a replica whose visible position may be above what its primary permits:
    /// this can be the case for the log that it had at its opening, until this primary or another one permits that
    /// much. With a quorum a failover may take the excess back.
    pub fn is_unsettled(&self) -> bool {
        self.shared.txns.log().followed().is_some_and(|followed| !followed.shown.is_settled())
    }

    /// Refuses from now on, until the database is opened again, the commit of every transaction that wrote
    /// ([`EngineError::Replica`]), because another node leads. Commits whose record is already in the log remain
    /// valid and are answered.
    pub fn refuse_commits(&self) {
        self.shared.depose();
    }

    /// Returns a wait that ends once new snapshots show every commit below `lsn`, which a replica must have
    /// replayed first; `None` if they already do.
    pub fn wait_shown(&self, lsn: Lsn) -> Option<ShownWait> {
        let followed = self.shared.txns.log().followed().filter(|_| self.shown() < lsn)?;
        Some(ShownWait::new(&followed.shown, lsn).acknowledging(&self.shared.txns))
    }

    /// Calls `hook` for each change of the catalog that a replica replays; in any other database there is no call.
    /// Returns the position from which on snapshots show the changes that were replayed before. Replay may be
    /// ahead of the visible position, so a caller that reads the catalog now and leaves later changes to the hook
    /// reads at the returned position ([`Db::rows_at`]), not at an older snapshot.
    pub fn on_catalog_change(&self, hook: CatalogHook) -> Lsn {
        self.shared.txns.log().followed().map_or(Lsn::ZERO, |followed| followed.set_hook(hook))
    }

    /// Visits the rows of a family as the commits below `position` have left them, in order of the keys; on a
    /// replica also before a snapshot shows them, once they are in place. The caller holds a snapshot at or below
    /// `position`, or is the hook of [`Db::on_catalog_change`] at the position of its change. `visit` runs under a
    /// pin, so it must not wait.
    pub fn rows_at(&self, cf: CfId, position: Lsn, visit: &mut dyn FnMut(&[u8], &[u8])) {
        if let Some(family) = self.shared.families.get(cf) {
            let fates = TxnStatuses(&self.shared.txns);
            family.states(position, &fates, &mut |state| visit(state.key, state.value));
        }
    }

    /// Returns the position of a new snapshot that no crash takes back, and the state hash there: one number for
    /// all rows of all families except `skipped`, over keys, values and commits. Nodes with equal rows have equal
    /// hashes. Reads every row.
    ///
    /// # Errors
    /// [`EngineError::TooManySessions`].
    pub fn state_hash(&self, skipped: &[CfId]) -> Result<(Lsn, u64), EngineError> {
        let holder = self.shared.txns.hold_settled()?;
        let (snapshot, fates) = (holder.snapshot(), TxnStatuses(&self.shared.txns));
        let skipped = [skipped, &self.shared.dropped.hidden_from(snapshot)].concat();
        Ok((snapshot, state_hash(&self.shared.families, snapshot, &fates, &skipped)))
    }

    /// Holds the current state that no crash takes back, so that it can be compared with another node at the same
    /// position.
    ///
    /// # Errors
    /// [`EngineError::TooManySessions`].
    pub fn hold_state(&self) -> Result<HeldState, EngineError> {
        HeldState::new(&self.shared, &[])
    }

    /// Returns the families of a replica in which rows may be missing, by id, each with the position from which
    /// on: the primary wrote those rows without its log, as [`Options::allow_replication_holes`] permits. These
    /// families are not compared.
    pub fn holes(&self) -> Vec<(CfId, Lsn)> {
        let followed = self.shared.txns.log().followed();
        let mut holes: Vec<(CfId, Lsn)> =
            followed.map(|followed| followed.holes.all().into_iter().collect()).unwrap_or_default();
        holes.sort_unstable();
        holes
    }

    /// Returns how many transactions have committed with a record since the database was opened; 0 on a replica.
    pub fn commits(&self) -> u64 {
        u64::try_from(self.shared.commits.sum()).unwrap_or(0)
    }

    /// Returns how many transactions that had an id were rolled back since the database was opened.
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

    /// Returns every lock that is held or waited for, row by row for rows with waiters.
    pub fn lock_picture(&self) -> LockPicture {
        self.shared.txns.lock_picture()
    }

    /// Returns the slots ([`CancelHandle::slot`](crate::CancelHandle::slot)) of the sessions that the session in `slot`
    /// waits for.
    pub fn slots_in_the_way(&self, slot: usize) -> Vec<usize> {
        self.shared.txns.slots_in_the_way(slot)
    }

    /// Returns which xids had ended at the snapshot `at`, if that is still known.
    pub fn xid_snapshot(&self, at: Lsn) -> Option<XidSnapshot> {
        self.shared.txns.xid_snapshot(at)
    }

    /// Returns how the transaction with this id ended, if that is still known.
    pub fn xid_fate(&self, xid: Xid) -> XidFate {
        self.shared.txns.xid_fate(xid)
    }

    /// Returns the snapshots in force, lowest first, each with its holder
    /// ([`CancelHandle::slot`](crate::CancelHandle::slot)) and its age, as rounds of background work have observed
    /// it. The first one keeps most of [`Db::old_version_bytes`].
    pub fn snapshots(&self) -> Vec<HeldSnapshot> {
        self.shared.txns.snapshots(self.shared.now())
    }

    /// Returns how many rows have old versions that are kept for `snapshot`, or were superseded above it and not
    /// visited since.
    pub fn rows_kept_for(&self, snapshot: Lsn) -> u64 {
        u64::try_from(self.shared.garbage.kept_for(snapshot)).unwrap_or(u64::MAX)
    }

    /// Returns the bytes of memory that old versions occupy, approximately while commits and pruning are in
    /// progress. It costs one load per stripe of the counter.
    pub fn old_version_bytes(&self) -> u64 {
        self.shared.garbage.bytes()
    }

    /// Runs one round of background work, for a database opened without its thread. Returns the amount of work.
    pub fn tick(&self) -> usize {
        self.shared.tick()
    }

    /// Stops the background threads, writes everything out and closes the log. Families with rows that are not in
    /// the log are flushed, including those of a database without a log, unless [`Options::avoid_flush_at_close`]
    /// is set. Other families are not flushed, since the log has their rows. Open sessions can still read.
    ///
    /// # Errors
    /// Those of the log; those of the LSM levels, which are returned after the log was closed. Closing twice is no
    /// error.
    pub fn close(&self) -> Result<(), EngineError> {
        self.shared.close()
    }
}
