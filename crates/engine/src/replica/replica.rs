//! `Replica`: a database directory that follows the log of another database.
//!
//! # Invariants
//! - E1. Nothing is shown before the log is applied up to `consistent_at` of the control file: until then rows of a
//!   base backup are newer than the applied log, or come from a re-log. Until then records are replayed as in an
//!   opening, and there is no [`Db`].
//! - E2. A replica appends nothing to its log: positions are those of its primary. It flushes few rows where a primary
//!   would re-log them.
//! - E3. The LSM levels have no row above the read horizon, nor above what is on disk here (REPL-11).
//! - E4. The own log is shown as far as it reaches at the opening: none of it was shipped before it was durable on the
//!   primary (R1). Whether a quorum has it is known once the primary says so: until then [`Db::is_unsettled`] is true,
//!   and a server that counts replicas reads no tables.
//! - E5. Replay waits for no reader and cancels none; old versions that a reader needs stay here, within the limits of
//!   every database ([`Options::old_version_memory`]).
//!
//! Checked by `replica/tests.rs`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, OnceLock};

use collie_base::{CfId, Lsn, Map, Term};
use collie_env::Env;
use collie_store::Levels;
use collie_txn::Txns;
use collie_wal::RecordRef;
use parking_lot::Mutex;

use crate::backup::check_levels;
use crate::db::HeldState;
use crate::dir::control::{Control, History};
use crate::dir::histories::HistoryStart;
use crate::dir::history_list::HistoryList;
use crate::dir::owner::check_owned;
use crate::families::Families;
use crate::flush::Base;
use crate::follow::ApplyStat;
use crate::follow::followed::{Followed, OwnLog};
use crate::follow::holes::Holes;
use crate::follow::lanes::{Applying, Lanes, QUEUE_BYTES};
use crate::follow::record::{RecordAt, VisitRef};
use crate::follow::shown::Shown;
use crate::log::EngineLog;
use crate::log::large::LargeTransactions;
use crate::log::shown_wait::ShownWait;
use crate::open::apply::appliers_for;
use crate::open::load::LoadedLevels;
use crate::open::progress::{Meter, OpenPhase, PROGRESS_RECORDS};
use crate::open::replay::{Replay, Replayed};
use crate::open::{CHECKPOINT, Recovering, start_threads};
use crate::redo::Redo;
use crate::redo::txn_chunks::ChunkScan;
use crate::replica::follower_log::FollowerLog;
use crate::replica::following::Following;
use crate::replica::live::{Begin, Follow as _, Live};
use crate::replica::unfinished::{HELD_BYTES_MAX, Unfinished};
use crate::shared::Shared;
use crate::shared::mode::Mode;
use crate::{Db, EngineError, OpenProgress, OpenReport, Options, QuorumNote, families::names};

/// A function that reads the records of an own log from its beginning, in order, and calls its argument with each.
pub(crate) type ReadAll<'a> = dyn Fn(&mut VisitRef<'_>) -> Result<(), EngineError> + 'a;

/// Options of applying.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReplicaOptions {
    /// Threads that apply row writes; 0: as many as there are cores, 8 at most.
    pub apply_workers: usize,
}

/// The identity of a directory in which a replica is to be opened.
#[derive(Clone, Debug)]
pub struct Seed {
    /// The id of the primary's cluster.
    pub cluster_id: u128,
    /// The id of this node, drawn for the directory.
    pub node_id: u64,
    /// The primary's term.
    pub term: Term,
    /// The primary's histories, oldest first.
    pub histories: Vec<HistoryStart>,
    /// Nothing is shown before the log is applied up to here: the position that was durable on the primary when the LSM
    /// levels had been copied.
    pub consistent_at: Lsn,
}

impl Seed {
    /// Writes the identity of the directory `dir`, for [`Replica::open`]. To be called last: a directory without it
    /// cannot be opened. LSM levels from a base backup are compared with the checksums inside them first, since they
    /// may have rotted on either disk or on the way.
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Errors
    /// [`EngineError::Levels`] with the name of a file of the LSM levels that has changed since it was written; errors
    /// of the file system.
    pub fn plant(&self, env: &Env, dir: &Path) -> Result<(), EngineError> {
        let Self { cluster_id: cluster, node_id: node, term, consistent_at, .. } = *self;
        check_levels(env, &Control::levels_dir(dir))?;
        let histories = HistoryList::of(self.histories.iter().map(|history| History::from(*history)).collect());
        env.files.create_dir_all(dir).map_err(|error| EngineError::io("create", dir.to_owned(), error))?;
        let consistent_at = consistent_at.max(Control::FOLLOWS);
        Control { cluster, node, term, consistent_at, histories }.write(env, dir)
    }
}

/// The log of a directory that is being opened.
pub(crate) struct Over<'a> {
    own: Arc<dyn OwnLog>,
    log: Option<Arc<FollowerLog>>,
    read_all: &'a ReadAll<'a>,
}

/// The state in which records are replayed as in an opening, and nothing is shown (E1).
pub(crate) struct Catching {
    levels: Levels,
    families: Arc<Families>,
    flushed: Map<CfId, Lsn>,
    replay: Replay,
    unfinished: Unfinished,
    /// Used by `unfinished` until the database is opened, which notes the remaining transactions in its own set.
    scratch: LargeTransactions,
    control: Control,
    position: Lsn,
    holes: Holes,
    /// UNLOGGED records: their family and position.
    unlogged: Vec<(CfId, Lsn)>,
}

impl Catching {
    /// Replays a record.
    fn take(&mut self, record: RecordRef<'_>, env: &Env, dir: &Path) -> Result<(), EngineError> {
        let RecordRef { lsn, end, tag, body, .. } = record;
        let damage = |what| EngineError::Corruption { lsn, what };
        let at = RecordAt { since: self.position, lsn };
        self.replay.apply(lsn, tag, body)?;
        let redo = Redo::decode(tag, body).map_err(|error| damage(error.what))?;
        self.unfinished.note(at, &redo, &self.scratch).map_err(damage)?;
        if let Redo::Unlogged { cf } = redo
            && self.unlogged.iter().all(|(before, _)| *before != cf)
        {
            self.unlogged.push((cf, lsn));
        }
        if let Redo::Incarnation(incarnation) = &redo
            && self.control.note_history(History::of(lsn, self.position, incarnation))
        {
            self.control.write(env, dir)?;
        }
        self.position = end;
        Ok(())
    }
}

pub(crate) enum Phase {
    Catching(Box<Catching>),
    Live(Box<Live<Following>>),
    /// The replica takes no more: the error that ended it, or `Closed`.
    Over(EngineError),
}

pub(crate) struct Inner {
    // Constant after open.
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    replica: ReplicaOptions,
    pub(crate) env: Env,
    own: Arc<dyn OwnLog>,
    /// The same log as `own`, unless a test uses another one.
    log: Option<Arc<FollowerLog>>,
    cluster_id: u128,
    node_id: u64,
    consistent_at: Lsn,
    /// Set once, when there is a state to show.
    pub(crate) open: OnceLock<Opened>,
    /// The end of the applied log before `open` is set.
    caught: AtomicU64,
    /// Held while records are taken.
    pub(crate) phase: Mutex<Phase>,
}

pub(crate) struct Opened {
    pub(crate) db: Db,
    applying: Arc<Applying>,
    pub(crate) followed: Arc<Followed>,
    pub(crate) following: Arc<Following>,
}

/// See the module's documentation. Clones share it.
#[derive(Clone)]
pub struct Replica(Arc<Inner>);

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("dir", &self.0.dir).field("applied", &self.applied()).finish_non_exhaustive()
    }
}

impl Replica {
    /// Opens the directory `dir`, which [`Seed::plant`] has prepared and which may have LSM levels of a base backup,
    /// and replays the log there. Nothing is appended: the log continues with the received records. `options.read_only`
    /// and `options.first_xid` have no effect here.
    ///
    /// # Durability
    /// Everything that was received and flushed here is there on return.
    ///
    /// # Errors
    /// If the directory does not exist, is open elsewhere, of a newer format, damaged, or cannot be read or written.
    pub fn open(
        dir: &Path,
        options: Options,
        replica: ReplicaOptions,
        env: &Env,
        progress: &mut dyn FnMut(&OpenProgress),
    ) -> Result<(Self, OpenReport), EngineError> {
        let control = Control::read(env, dir)?.ok_or_else(|| EngineError::NotFound { path: dir.to_owned() })?;
        check_owned(dir, env)?;
        if !options.wal_enabled {
            let what = "wal.enabled = false and a replica: what it follows is a log";
            return Err(EngineError::InvalidArgument { what });
        }
        if options.wal_dir.is_some() {
            return Err(EngineError::InvalidArgument {
                what: "wal.wal_dir of a replica is not built: leave it empty there",
            });
        }
        let noted = Levels::noted_in(env, &Control::levels_dir(dir)).map_err(EngineError::levels)?;
        let needed = noted.log_start.max(CHECKPOINT);
        let log_dir = Control::log_dir(dir);
        let mut log_options = options.log.clone();
        // A base backup has no log: the own log begins where the LSM levels need it.
        log_options.first_lsn = needed;
        // LSM levels of a base backup may be above the log that was received so far.
        let is_consistent = noted.flushed > control.consistent_at;
        log_options.known_durable = Some(noted.flushed).filter(|flushed| is_consistent && *flushed > Lsn::ZERO);
        let (log, found) = FollowerLog::open(env, &log_dir, log_options)?;
        let log = Arc::new(log);
        let own = Arc::clone(&log) as Arc<dyn OwnLog>;
        let read_all: &ReadAll<'_> = &|visit| log.read_all(visit);
        let over = Over { own, log: Some(Arc::clone(&log)), read_all };
        let (this, report) = Self::over(dir, options, replica, env, over, progress)?;
        Ok((this, OpenReport { notices: found.notes, incarnation: found.incarnation, ..report }))
    }

    /// Opens the directory `dir`, whose log is already open.
    pub(crate) fn over(
        dir: &Path,
        options: Options,
        replica: ReplicaOptions,
        env: &Env,
        over: Over<'_>,
        progress: &mut dyn FnMut(&OpenProgress),
    ) -> Result<(Self, OpenReport), EngineError> {
        options.check()?;
        let mut control = Control::read(env, dir)?.ok_or_else(|| EngineError::NotFound { path: dir.to_owned() })?;
        let Over { own, log, read_all } = over;
        let (levels, _settled) =
            Levels::open(env, &Control::levels_dir(dir), &options.levels).map_err(EngineError::levels)?;
        let needed = levels.log_start().max(CHECKPOINT);
        let (start, end) = (own.start(), own.end());
        // Replay over a log with a gap above the LSM levels would lose commits.
        if start > needed {
            return Err(EngineError::MissingLog { path: Control::log_dir(dir), start: Some(start), needed });
        }
        control.histories.forget_below(start); // reaches the disk with the next history
        let families = Arc::new(Families::with_levels());
        let mut meter = Meter::new(progress);
        let threads = appliers_for(options.recovery_threads);
        // A simulated disk counts its calls, so they must come from one thread, in one order.
        let loaders = if env.files.is_real() { threads } else { 1 };
        let seed = env.random.u64();
        let recovering = Recovering { levels: &levels, families: &families, loaders, threads, seed };
        let (replay, LoadedLevels { flushed, rows: level_rows }) = recovering.begin(&mut meter)?;
        let (cluster_id, node_id, consistent_at) = (control.cluster, control.node, control.consistent_at);
        let unfinished = Unfinished::new(needed, 0);
        let scratch = LargeTransactions::default();
        let (holes, unlogged) = (Holes::read(env, dir)?, Vec::new());
        let mut catching = Catching {
            levels,
            families,
            flushed,
            replay,
            unfinished,
            scratch,
            control,
            position: start,
            holes,
            unlogged,
        };
        let (bytes, mut records) = (end.bytes_since(start), 0_u64);
        meter.begin(OpenPhase::Replay, bytes);
        read_all(&mut |record| {
            catching.take(record, env, dir)?;
            records += 1;
            if records.is_multiple_of(PROGRESS_RECORDS) {
                meter.note(record.end.bytes_since(start), catching.replay.rows);
            }
            // A replica below `consistent_at` continues with the stream, so how its large transactions end is not known
            // yet.
            if end >= consistent_at && catching.replay.is_crowded() {
                let mut scan = ChunkScan::new(needed);
                read_all(&mut |record| scan.note(record.lsn, record.tag, record.body))?;
                catching.replay.take_committed(scan.finish())?;
            }
            Ok(())
        })?;
        if records == 0 {
            // The log of a copy begins where its LSM levels need it, and may be empty: then no record sets the
            // position.
            catching.position = catching.position.max(needed.min(end));
        }
        let rows = catching.replay.rows;
        let position = catching.position;
        let inner = Inner {
            dir: dir.to_owned(),
            options,
            replica,
            env: env.clone(),
            own,
            log,
            cluster_id,
            node_id,
            consistent_at,
            open: OnceLock::new(),
            caught: AtomicU64::new(position.get()),
            phase: Mutex::new(Phase::Over(EngineError::Closed)),
        };
        let this = Self(Arc::new(inner));
        *this.0.phase.lock() = this.0.settle(Phase::Catching(Box::new(catching)))?;
        meter.go_on(OpenProgress { phase: OpenPhase::Done, bytes_done: bytes, bytes_total: bytes, rows });
        let report = OpenReport {
            created: false,
            notices: Vec::new(),
            damaged: Vec::new(),
            rows,
            level_rows,
            log_bytes: bytes,
            incarnation: 0,
            ring_outlives_process: false,
            read_only: true,
        };
        Ok((this, report))
    }

    /// Appends whole records of the primary's log that begin at `start` and continue `prev_end` to the own log, and
    /// then gives them to the workers. One caller at a time. Returns the end of the records. See
    /// [`collie_wal::Follower::receive`].
    ///
    /// # Durability
    /// None yet: see [`Replica::follower`]. Everything visible here is durable on the primary.
    ///
    /// # Progress
    /// Blocks while 64 MiB of row writes wait for workers, on changes of the catalog until they are in place, and as
    /// the log does.
    ///
    /// # Errors
    /// Those of the log: `Full` may come after a part was taken, as [`Replica::end`] shows. `Corruption`: replay has
    /// ended and the replica must be rebuilt; later calls return the same error, and the applied state can be read.
    /// [`EngineError::ReplayStopped`], [`EngineError::Closed`].
    pub fn receive(&self, start: Lsn, prev_end: Lsn, records: &[u8]) -> Result<Lsn, EngineError> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let log = self.0.log.as_ref().ok_or(EngineError::Closed)?;
        self.0.note_following()?;
        log.receive(start, prev_end, records, |give| self.take(|visit| give(visit)))
    }

    /// Makes this node a primary in `term`: everything received is applied and shown, the log continues with a new
    /// history, and from then on sessions can write, open ones included. [`Replica::db`] is the same database. Nothing
    /// is received any more.
    ///
    /// The caller ensures that no other node leads in this term or continues in a lower one.
    ///
    /// # Durability
    /// The new history is durable on return. After a kill before that, the directory is a replica's or a primary's,
    /// never both.
    ///
    /// # Progress
    /// Blocks on replay of what was received, a flush, and reading the log once; readers continue.
    ///
    /// # Errors
    /// `InvalidArgument` while the base backup is not complete, or for a term that is not above that of
    /// [`Replica::histories`]; the error that has ended replay; [`EngineError::Busy`]: nothing has changed in these
    /// cases. Errors of the disk and of the log: the replica must be opened again.
    pub fn promote(&self, term: Term) -> Result<Db, EngineError> {
        let log = self.0.log.as_ref().ok_or(EngineError::Closed)?;
        log.end_receiving(|log| self.0.promote(log, term))
    }

    /// Returns the own log, for its marks, waits and figures. Only [`Replica::receive`] may give it records.
    pub fn follower(&self) -> Option<&collie_wal::Follower> {
        self.0.log.as_ref().map(|log| log.follower())
    }

    /// Returns the end of the received log.
    pub fn end(&self) -> Lsn {
        self.0.own.end()
    }

    /// Replays the records with which `give` calls its argument, in the order of the log. Their commits become visible
    /// soon after.
    pub(crate) fn take(
        &self,
        give: impl FnOnce(&mut VisitRef<'_>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let inner = &*self.0;
        let mut phase = inner.phase.lock();
        let taken = match &mut *phase {
            Phase::Catching(catching) => give(&mut |record| catching.take(record, &inner.env, &inner.dir)),
            Phase::Live(live) => {
                let taken = give(&mut |record| live.take(record));
                live.flush(); // also the records before an error
                taken
            }
            Phase::Over(error) => Err(error.clone()),
        };
        if let Err(error) = &taken {
            // What was applied stays readable; nothing is skipped.
            if let Phase::Catching(_) = &*phase {
                *phase = Phase::Over(error.clone());
            }
            return taken;
        }
        if let Phase::Catching(catching) = &*phase {
            inner.caught.store(catching.position.get(), Release);
            if catching.position >= inner.consistent_at {
                let caught = std::mem::replace(&mut *phase, Phase::Over(EngineError::ReplayStopped));
                *phase = inner.settle(caught)?;
            }
        }
        Ok(())
    }

    /// Allows sessions to see commits below `lsn`, as far as they are applied. The primary sends this position with
    /// each packet.
    pub fn set_show(&self, lsn: Lsn) {
        if let Some(open) = self.0.open.get() {
            open.followed.shown.told(lsn);
            open.db.shared.shown_moved(&open.followed);
        }
    }

    /// Frees dropped families that no snapshot shows any more; replay does so too. To be called now and then while
    /// nothing is received.
    pub fn tick(&self) {
        if let Some(mut phase) = self.0.phase.try_lock()
            && let Phase::Live(live) = &mut *phase
        {
            live.flush();
        }
    }

    /// Returns the database, whose sessions read the visible state; `None` until a state may be shown (E1).
    pub fn db(&self) -> Option<Db> {
        self.0.open.get().map(|open| open.db.clone())
    }

    /// Returns the quorum configuration of the newest QUORUM record in the log here, whether it is applied or not;
    /// `None` if there is no such record, or no state may be shown yet (E1). [`Db::quorum_note`] knows only of records
    /// that replay has reached.
    ///
    /// # Progress
    /// Blocks on a running [`Replica::receive`].
    pub fn quorum_note(&self) -> Option<QuorumNote> {
        let newest = || self.0.open.get().and_then(|open| open.db.quorum_note());
        // Records are in the log, and may be on disk, before replay takes them.
        self.0.log.as_ref().map_or_else(newest, |log| log.between_receives(newest))
    }

    /// Returns the position below which every commit is applied.
    pub fn applied(&self) -> Lsn {
        self.0.open.get().map_or_else(|| Lsn::new(self.0.caught.load(Acquire)), |open| open.applying.applied())
    }

    /// Returns the position below which sessions see every commit; zero until a state may be shown.
    pub fn shown(&self) -> Lsn {
        self.0.open.get().map_or(Lsn::ZERO, |open| open.followed.shown.position())
    }

    /// Moves the times at which positions up to `shown` became visible to `out`, oldest first: positions, each with the
    /// time on this machine's clock, in nanoseconds, by which everything below it was visible. Only changes since the
    /// last call are moved.
    pub fn take_shown_times(&self, shown: Lsn, out: &mut Vec<(Lsn, u64)>) {
        self.0.open.get().into_iter().for_each(|open| open.followed.shown_times.take(shown, out));
    }

    /// Returns the position below which the log is on this node's disk.
    pub fn durable(&self) -> Lsn {
        self.0.own.durable()
    }

    /// Returns the bytes of row writes that wait to be applied.
    pub fn queue_bytes(&self) -> u64 {
        self.0.open.get().map_or(0, |open| open.applying.queued_bytes())
    }

    /// Returns the figures of the workers.
    pub fn apply_stat(&self) -> ApplyStat {
        self.0.open.get().map_or_else(ApplyStat::default, |open| open.applying.stat())
    }

    /// Returns a wait until sessions see commits below `lsn`; `None` until a state may be shown.
    pub fn wait_shown(&self, lsn: Lsn) -> Option<ShownWait> {
        self.0.open.get().map(|open| ShownWait::new(&open.followed.shown, lsn).acknowledging(&open.db.shared.txns))
    }

    /// Returns the number of started workers, over which row writes can be spread; 0 until a state may be shown.
    pub fn apply_workers_max(&self) -> usize {
        self.0.open.get().map_or(0, |open| open.applying.workers_max())
    }

    /// Sets how many of the started workers apply row writes, until the replica is closed. The others are idle.
    ///
    /// # Errors
    /// [`EngineError::BadOption`] for zero, for more than were started, and until a state may be shown.
    ///
    /// # Progress
    /// Wait-free. Replay switches after its next packet, once everything that it has handed over is in place.
    pub fn set_apply_workers(&self, workers: usize) -> Result<(), EngineError> {
        let most = self.apply_workers_max();
        match self.0.open.get() {
            Some(open) if (1..=most).contains(&workers) => {
                open.applying.spread_over(workers);
                Ok(())
            }
            _ => Err(EngineError::BadOption {
                name: "replication.apply_workers".into(),
                value: workers.to_string(),
                wanted: format!("1 to {most}, the workers that were started"),
            }),
        }
    }

    /// Returns the number of row writes that were handed to workers since there is a state to show.
    pub fn row_writes(&self) -> u64 {
        match &*self.0.phase.lock() {
            Phase::Live(live) => live.row_writes(),
            _ => 0,
        }
    }

    /// Returns the error that has ended replay, if there is one.
    pub fn failure(&self) -> Option<EngineError> {
        match &*self.0.phase.lock() {
            Phase::Over(error) => Some(error.clone()),
            Phase::Live(live) => live.failure(),
            Phase::Catching(_) => None,
        }
    }

    /// Returns the id of the cluster, which is that of its primary.
    pub fn cluster_id(&self) -> u128 {
        self.0.cluster_id
    }

    /// Returns the id of this node.
    pub fn node_id(&self) -> u64 {
        self.0.node_id
    }

    /// Returns the position up to which the log must be applied before anything is shown.
    pub fn consistent_at(&self) -> Lsn {
        self.0.consistent_at
    }

    /// Returns the term and the histories, including received ones.
    pub fn histories(&self) -> (Term, Vec<HistoryStart>) {
        let of = |control: &Control| (control.term, control.histories.iter().map(|known| (*known).into()).collect());
        if let Some(open) = self.0.open.get() {
            return of(&open.following.control.lock());
        }
        match &*self.0.phase.lock() {
            Phase::Catching(catching) => of(&catching.control),
            _ => (Term::new(0), Vec::new()),
        }
    }

    /// Waits until everything taken is in place.
    ///
    /// # Errors
    /// [`EngineError::ReplayStopped`].
    pub fn drain(&self) -> Result<(), EngineError> {
        match &mut *self.0.phase.lock() {
            Phase::Live(live) => live.drain(),
            Phase::Catching(_) => Ok(()),
            Phase::Over(error) => Err(error.clone()),
        }
    }

    /// Holds the state below `at`, as [`Db::hold_state`] does on the primary, once everything taken is applied: of all
    /// families except those with holes, and dropped ones that old snapshots keep. Returns `None` if replay is not
    /// exactly at `at`, or may not show it. Nothing is taken meanwhile.
    ///
    /// # Errors
    /// As [`Replica::state_hash`].
    pub fn hold_state(&self, at: Lsn) -> Result<Option<HeldState>, EngineError> {
        let mut phase = self.0.phase.lock();
        let (Phase::Live(live), Some(open)) = (&mut *phase, self.0.open.get()) else {
            return Err(EngineError::Closed);
        };
        live.drain()?;
        if live.position().min(open.followed.shown.show()) != at {
            return Ok(None);
        }
        let skipped: Vec<CfId> = live.holes().keys().copied().collect();
        open.db.shared.txns.log().wait_boundary(at)?; // the last worker is about to publish
        let held = HeldState::new(&open.db.shared, &skipped)?;
        Ok(Some(held).filter(|held| held.at() == at))
    }

    /// Returns a position and the state hash there, once everything taken is applied: of all families except those with
    /// holes, and dropped ones that old snapshots keep. Reads every row. See [`Db::state_hash`].
    ///
    /// # Errors
    /// [`EngineError::ReplayStopped`], [`EngineError::TooManySessions`]; [`EngineError::Closed`] until a state may be
    /// shown.
    pub fn state_hash(&self) -> Result<(Lsn, u64), EngineError> {
        let (skipped, db, position) = {
            let mut phase = self.0.phase.lock();
            let (Phase::Live(live), Some(open)) = (&mut *phase, self.0.open.get()) else {
                return Err(EngineError::Closed);
            };
            live.drain()?;
            let skipped: Vec<CfId> = live.holes().keys().copied().collect();
            (skipped, open.db.clone(), live.position().min(open.followed.shown.show()))
        };
        db.shared.txns.log().wait_boundary(position)?; // the last worker is about to publish
        db.state_hash(&skipped)
    }

    /// Ends replay, and closes the database and its log. Open sessions can still read.
    ///
    /// # Errors
    /// Those of the log and of the LSM levels.
    pub fn close(&self) -> Result<(), EngineError> {
        let phase = std::mem::replace(&mut *self.0.phase.lock(), Phase::Over(EngineError::Closed));
        drop(phase); // ends the workers
        let Some(open) = self.0.open.get() else { return self.0.own.close() };
        open.followed.shown.close();
        // The log is a primary's also if the promotion failed after it was reopened.
        let is_own = open.db.shared.txns.log().followed().is_none();
        let closed = open.db.close();
        if is_own { closed } else { closed.and(self.0.own.close()) }
    }
}

impl Inner {
    /// Notes in the control file, before the first record is received, that the directory is a replica's: from then on
    /// it opens only as one. The rows of a former primary are all shown.
    fn note_following(&self) -> Result<(), EngineError> {
        let Some(open) = self.open.get() else { return Ok(()) }; // it is noted already
        let mut control = open.following.control.lock();
        if control.consistent_at == Lsn::ZERO {
            control.consistent_at = Control::FOLLOWS;
            control.write(&self.env, &self.dir)?;
        }
        Ok(())
    }

    /// Makes the caught-up state visible, if it is consistent (E1).
    fn settle(&self, phase: Phase) -> Result<Phase, EngineError> {
        match phase {
            Phase::Catching(catching) if catching.position >= self.consistent_at => {
                let (live, opened) = self.go_live(*catching)?;
                assert!(self.open.set(opened).is_ok(), "a replica goes live once");
                Ok(Phase::Live(Box::new(live)))
            }
            phase => Ok(phase),
        }
    }

    fn go_live(&self, catching: Catching) -> Result<(Live<Following>, Opened), EngineError> {
        let Catching { levels, families, flushed, replay, mut unfinished, control, position, .. } = catching;
        let Catching { holes, unlogged, .. } = catching;
        let Replayed { xid_limit, old_bytes, large, time_us, quorum, .. } = replay.finish();
        let (forgotten, cleared_bytes) = names::after_replay(&families)?;
        families.note_forgotten(forgotten);
        unfinished.begin(&large, HELD_BYTES_MAX);

        let workers = match self.replica.apply_workers {
            0 => appliers_for(0).min(8),
            workers => appliers_for(workers),
        };
        let (applying, hands) = Applying::new(position, workers, QUEUE_BYTES);
        let shown = Shown::new(Arc::clone(&applying), position); // E4
        let histories = control.histories.iter().map(|known| (*known).into()).collect();
        let followed = Arc::new(Followed::new(Arc::clone(&self.own), shown, holes, xid_limit, histories));
        let options = &self.options;
        let log = EngineLog::following(Arc::clone(&followed)).counting_replicas(options.quorum);
        let txns = Txns::new(log, options.txn(xid_limit));
        let base = Base::new(levels, large, &families, &txns, options.compaction_threads);
        let mode = Mode::Replica { base, control: control.clone(), promoted: OnceLock::new() };
        let shared = Arc::new(Shared::new((families, txns), mode, quorum, xid_limit, options, &self.env));
        shared.garbage.loaded(old_bytes);
        shared.garbage.freed(cleared_bytes);
        // Snapshots begin at the read horizon before any thread or session can take one.
        shared.shown_moved(&followed);
        shared.txns.tick(shared.now());
        shared.limit_memory();
        start_threads(&shared, options, &self.dir)?;

        let following = Arc::new(Following {
            shared: Arc::clone(&shared),
            followed: Arc::clone(&followed),
            dir: self.dir.clone(),
            control: Mutex::new(control),
        });
        following.xid_limit(xid_limit);
        let target = Arc::clone(&following);
        let lanes = Lanes::start(Arc::clone(&applying), hands, target)
            .map_err(|error| EngineError::io("start a thread for", self.dir.clone(), error))?;
        let holes = following.followed.holes.all();
        let begin = Begin { position, unfinished, flushed, xid_limit, time_us, holes, unlogged };
        let live = Live::new(Arc::clone(&following), lanes, begin)?;
        Ok((live, Opened { db: Db { shared }, applying, followed, following }))
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
