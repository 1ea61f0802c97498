//! Opening a directory: its identity, the contents of its log, and the report about them.
//!
//! Order: the control file gives the directory its identity (it is made first, so that a log without one never
//! counts as ours); MANIFEST says from where on the log is needed; the log takes the lock and finds its end; the
//! levels are loaded; replay adds what they lack; a new history starts if positions were skipped. Nothing is
//! flushed. After a kill at any point the next opening does the same again.
//!
//! | file | holds |
//! |---|---|
//! | `load` | the levels, read into families |
//! | `replay` | the records of the log, read once |
//! | `apply`, `gather` | threads that put row writes into families, and the sorting of what they staged |
//! | `read_only`, `salvaged` | openings that write nothing, of a whole log and of a damaged one |
//! | `leave_log` | the opening without a log of a directory that has one |
//! | `progress` | how far an opening has come |

pub(crate) mod apply;
pub(crate) mod gather;
mod leave_log;
pub(crate) mod load;
pub(crate) mod progress;
pub(crate) mod read_only;
pub(crate) mod replay;
pub(crate) mod salvaged;

use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use collie_base::{CfId, HistoryId, Lsn};
use collie_env::{Clock as _, Env, RealClock};
use collie_obs::{RecoverApply, word};
use collie_store::{Levels, LevelsNoted};
use collie_txn::Txns;
use collie_wal::{Checked, Ending, Log, Mark, RecordRef, Recovered, RecoveryMode, RingKind, WalError};

use crate::dir::control::{Control, History};
use crate::dir::descriptors::Descriptors;
use crate::dir::log_place::{LogPlace, copy_has_log_files, has_log_files};
use crate::families::Families;
use crate::flush::Base;
use crate::log::EngineLog;
use crate::log::carry::Carry;
use crate::log::no_log::{Numbers, Reserved};
use crate::open::apply::{Appliers, appliers_for};
use crate::open::leave_log::{NoRecords, leave_log};
use crate::open::load::{LoadedLevels, load};
use crate::open::progress::{Meter, OpenPhase, OpenProgress, PROGRESS_RECORDS};
use crate::open::replay::{Replay, Replayed};
use crate::redo::txn_chunks::ChunkScan;
use crate::redo::{Incarnation, tag};
use crate::shared::Shared;
use crate::shared::mode::{Leading, Mode};
use crate::{EngineError, Options, backup, dir::owner, families::names, log::no_log};

/// The position from which on a database needs its log when nothing of it was flushed to levels: its first. Flushed
/// commits no longer need it; MANIFEST says from where on it is needed.
pub const CHECKPOINT: Lsn = Lsn::FIRST;

/// Returns the highest position with which a flush of the database's levels has begun, without opening it: a log
/// that is cut must not end below that.
///
/// # Errors
/// MANIFEST is damaged or cannot be read.
pub fn checkpoint_of(dir: &Path, env: &Env) -> Result<Lsn, EngineError> {
    let noted = Levels::noted_in(env, &Control::levels_dir(dir)).map_err(EngineError::levels)?;
    Ok(noted.flushed.max(CHECKPOINT))
}

/// Time between two reports about the verification of the log.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Result of an opening.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenReport {
    /// Whether this opening created the database.
    pub created: bool,
    /// Lines that an operator should see, such as a trimmed torn tail.
    pub notices: Vec<String>,
    /// Families of damaged trees of the levels, in a database that is opened nevertheless with its readable rest.
    pub damaged: Vec<CfId>,
    /// Row writes replayed.
    pub rows: u64,
    /// Rows loaded from levels.
    pub level_rows: u64,
    /// Bytes of log read.
    pub log_bytes: u64,
    /// Openings of this directory's log so far.
    pub incarnation: u64,
    /// Whether commits that did not wait for the disk survive the process nevertheless: the log's ring is shared.
    pub ring_outlives_process: bool,
    /// Whether only reading is possible: the log was damaged, and this is its readable rest.
    pub read_only: bool,
}

pub(crate) fn open(
    dir: &Path,
    options: Options,
    env: &Env,
    progress: &mut dyn FnMut(&OpenProgress),
) -> Result<(Arc<Shared>, OpenReport), EngineError> {
    options.check()?;
    let descriptors = Descriptors::of_process(env, &options)?;
    let mut options = options;
    options.levels.descriptors = descriptors.kept;
    if !options.wal_enabled {
        no_log::check(&options)?;
        leave_log(env, dir, &options, progress)?;
    }
    if options.log.recovery_mode == RecoveryMode::SkipAnyCorruptedRecords {
        no_log::check_has_log(env, dir)?;
        return salvaged::open(dir, &options, env, progress);
    }
    if options.read_only {
        no_log::check_has_log(env, dir)?;
        return read_only::open(dir, &options, descriptors, env, progress);
    }
    let (mut control, created) = identify(dir, &options, env)?;
    if control.consistent_at > Lsn::ZERO {
        // Its log would continue in the history of its primary, in which the primary may continue too
        // (REPL-2).
        return Err(EngineError::Follows { path: dir.to_owned() });
    }
    // The log has to belong to this directory, and no other process may give the directory another log.
    let place = LogPlace::find(env, dir, options.wal_dir.as_deref(), &options.log.copies, &control)?;
    place.claim(env)?;
    let previous = control.histories.last().copied();
    let mut incarnation = Incarnation {
        term: control.term,
        history: HistoryId::new(env.random.u64()),
        previous_term: previous.map_or(control.term, |history| history.term),
        previous_history: previous.map_or(HistoryId::new(0), |history| history.id),
        reason: 1,
        wall_us: env.clock.wall_us(),
    };
    let mut log_options = options.log.clone();
    log_options.first_record = Some((tag::INCARNATION, incarnation.encode()));
    log_options.spares_wait = true; // the files that this opening writes come first
    let slots = log_options.slots;
    let log_dir = place.dir().to_owned();
    let (reserved, numbers) = numbers_of(dir, &options, &mut log_options, &log_dir, control.cluster, env)?;
    let log_env = numbers.as_ref().map_or_else(|| env.clone(), |numbers| numbers.sink());
    let begins_anew = reserved.is_some() || numbers.is_some();
    let had_history = !control.histories.is_empty();
    let levels_dir = Control::levels_dir(dir);
    // Read before the lock is taken, so this may be out of date; the levels read it again under the lock when they
    // are opened.
    let LevelsNoted { log_start, flushed } = Levels::noted_in(env, &levels_dir).map_err(EngineError::levels)?;
    let needed = log_start.max(CHECKPOINT);
    if had_history
        && !begins_anew
        && !has_log_files(&log_dir, env)?
        && !log_options.copies.iter().any(|dir| copy_has_log_files(dir, env))
    {
        return Err(EngineError::MissingLog { path: log_dir, start: None, needed });
    }
    // A log that does not fit is refused before anything is written; a new database needs nothing yet.
    log_options.known_start = (had_history && !begins_anew).then_some(needed);
    log_options.known_durable = Some(flushed).filter(|flushed| *flushed > Lsn::ZERO && !begins_anew);
    let mut meter = Meter::new(progress);
    let (wal, found) = open_log_watched(&log_env, &log_dir, log_options, flushed, &mut meter)?;
    if options.wal_enabled && begins_anew && Reserved::read(env, dir, control.cluster)? != reserved {
        return Err(WalError::Locked { pid: None }.into()); // another process had the database open since
    }
    let start = if begins_anew { found.next } else { found.start };
    // Under `point_in_time` the beginning of the log may have been removed as damaged.
    if had_history && !begins_anew && found.start > needed {
        return Err(EngineError::MissingLog { path: log_dir, start: Some(found.start), needed });
    }
    // The lock of the log is held from here on.
    place.sign(env, &control, &options.log.copies)?;
    let (levels, _settled) = Levels::open(env, &levels_dir, &options.levels).map_err(EngineError::levels)?;
    backup::remove_leftovers(env, dir);

    let families = Arc::new(Families::with_levels());
    if found.ending == Ending::Unclean {
        wal.flush_wal(true)?; // so that replay finds the record of the new history, and no token names the old one
    }
    let log_bytes = wal.durable().bytes_since(start);
    let threads = appliers_for(options.recovery_threads);
    // A simulated disk counts its calls, so there a single thread makes them, in one order.
    let loaders = if env.files.is_real() { threads.min(descriptors.loaders) } else { 1 };
    let recovering = Recovering { levels: &levels, families: &families, loaders, threads, seed: env.random.u64() };
    let (replayed, level_rows) = match &numbers {
        Some(_) => recovering.from(&NoRecords(start), start, &mut meter)?,
        None => recovering.from(&wal, start, &mut meter)?,
    };
    let Replayed { rows, mut xid_limit, mut incarnations, time_us, old_bytes, large, quorum } = replayed;
    if let Some(Reserved { xid_limit: limit, next_family, .. }) = reserved {
        xid_limit = xid_limit.max(limit);
        families.note_used(CfId::new(next_family.get().saturating_sub(1)));
    }
    let is_new = incarnations.is_empty() && !had_history; // the control file has histories of log that was cut
    let first_xid = if is_new { xid_limit.max(options.first_xid) } else { xid_limit };
    let (forgotten, cleared_bytes) = names::after_replay(&families)?;
    families.note_forgotten(forgotten);
    let unnamed_bytes = if reserved.is_some() { no_log::drop_unnamed(&families)? } else { 0 };

    // A new history is durable in the log before the control file has it.
    let log = EngineLog::new(wal, slots).counting_replicas(options.quorum);
    if is_new || begins_anew {
        incarnation.reason = u8::from(!is_new);
        let at = log.with_writer(|writer| writer.append(tag::INCARNATION, &[&incarnation.encode()]))?;
        log.wait(Mark::Durable, at.end)?;
        incarnations.push(History::of(at.start, at.start, &incarnation));
    }
    // A slot or a backup in progress that keeps the log from `found.start` on keeps its histories too.
    control.histories.forget_below(found.start);
    let written = if note_histories(&mut control, &incarnations) { control.write(env, dir) } else { Ok(()) };
    // The log has the new history too, and is not cut before the file has it (`Shared::pay_control`).
    let is_control_owed = !created && written.as_ref().is_err_and(EngineError::is_full_disk);
    if !is_control_owed {
        written?;
    }
    if options.wal_enabled && begins_anew {
        let quorum = quorum.carried(start);
        let carry = Carry { xid_limit: first_xid, next_family: families.next_id(), quorum };
        levels.note_log_start(start, &carry.encode()).map_err(EngineError::levels)?;
        Reserved::remove(env, dir)?; // no_log N2: before the log has anything that the levels lack
    }
    let txns = Txns::new(log, options.txn(first_xid));
    let base = Base::new(levels, large, &families, &txns, descriptors.jobs);
    let now = Duration::from_nanos(env.clock.now_ns());
    let leading = Leading::new(control, place, time_us, txns.log(), now);
    let mode = match numbers {
        None => Mode::Primary { base, leading },
        Some(numbers) => Mode::NoLog { base, leading, numbers },
    };
    let shared = Arc::new(Shared::new((families, txns), mode, quorum, first_xid, &options, env));
    shared.garbage.loaded(old_bytes);
    shared.garbage.freed(cleared_bytes.saturating_add(unnamed_bytes));
    shared.log_xid_limit()?;
    shared.txns.tick(shared.now());
    shared.limit_memory();
    shared.owe_control(is_control_owed);
    shared.txns.log().wal().into_iter().for_each(Log::let_prepare);
    start_threads(&shared, &options, dir)?;
    meter.go_on(OpenProgress { phase: OpenPhase::Done, bytes_done: log_bytes, bytes_total: log_bytes, rows });
    let mut notices = found.notes;
    if is_control_owed {
        notices.push("the disk is full: the control file is written again once there is room".to_owned());
    }
    if shared.has_no_log() {
        notices.push("wal.enabled = false: there is no log, and what is not flushed ends with the process".to_owned());
    }
    let report = OpenReport {
        created,
        notices,
        damaged: Vec::new(),
        rows,
        level_rows,
        log_bytes,
        incarnation: found.incarnation,
        ring_outlives_process: found.ring == RingKind::Shared,
        read_only: false,
    };
    Ok((shared, report))
}

/// Finds out whether the directory was used without a log, and prepares the log's options for a log that begins
/// above all numbers that were handed out. Returns the reserved numbers and, for a database without a log, the
/// object that reserves more.
fn numbers_of(
    dir: &Path,
    options: &Options,
    log_options: &mut collie_wal::Options,
    log_dir: &Path,
    cluster: u128,
    env: &Env,
) -> Result<(Option<Reserved>, Option<Arc<Numbers>>), EngineError> {
    let mut reserved = Reserved::read(env, dir, cluster)?;
    if options.wal_enabled {
        if reserved.is_some() && !no_log::void_log(env, dir, log_dir, cluster)? {
            reserved = None;
        }
        if let Some(reserved) = &reserved {
            log_options.first_lsn = reserved.end;
        }
        return Ok((reserved, None));
    }
    let numbers = Numbers::new(env, dir, cluster, reserved, log_options);
    (log_options.first_lsn, log_options.ring) = (numbers.first(), RingKind::Private);
    Ok((reserved, Some(numbers)))
}

/// Starts the threads that collect garbage, flush, free dropped families and look for rot, if the options ask for
/// them.
pub(crate) fn start_threads(shared: &Arc<Shared>, options: &Options, dir: &Path) -> Result<(), EngineError> {
    collie_obs::offer_clock(system_ns);
    if options.background {
        let fail = |error| EngineError::io("start a thread for", dir.to_owned(), error);
        shared.start_threads().map_err(fail)?;
    }
    Ok(())
}

/// Returns the time for samples where the processor has no clock: the system's, even over a simulated clock, since
/// no decision depends on it.
fn system_ns() -> u64 {
    RealClock.now_ns()
}

/// A log to recover from.
pub(crate) trait LogSource {
    /// Returns the end of the log.
    fn end(&self) -> Lsn;

    /// Calls `visit` with the records from `from` on, until it fails.
    fn visit(&self, from: Lsn, visit: impl FnMut(RecordRef<'_>) -> Result<(), EngineError>) -> Result<(), EngineError>;
}

impl LogSource for Log {
    fn end(&self) -> Lsn {
        self.durable()
    }

    fn visit(&self, from: Lsn, visit: impl FnMut(RecordRef<'_>) -> Result<(), EngineError>) -> Result<(), EngineError> {
        self.read(from).visit(visit)
    }
}

/// Fills empty families from the levels and the log.
pub(crate) struct Recovering<'a> {
    pub(crate) levels: &'a Levels,
    pub(crate) families: &'a Arc<Families>,
    /// Threads that load trees.
    pub(crate) loaders: usize,
    /// Threads that apply the log.
    pub(crate) threads: usize,
    /// Random seed of the hash by which appliers divide the keys.
    pub(crate) seed: u64,
}

impl Recovering<'_> {
    /// Recovers from a log that starts at `start`. Also returns how many rows the levels had.
    pub(crate) fn from(
        self,
        log: &impl LogSource,
        start: Lsn,
        meter: &mut Meter<'_>,
    ) -> Result<(Replayed, u64), EngineError> {
        let (needed, threads) = (self.levels.log_start().max(CHECKPOINT), self.threads);
        let (mut replay, LoadedLevels { rows, .. }) = self.begin(meter)?;
        let span = collie_obs::start::<RecoverApply>();
        replay_log(log, start, needed, &mut replay, meter)?;
        let replayed = replay.finish();
        if let Some(span) = span {
            let bytes = word(log.end().bytes_since(start));
            span.stop_with(start, RecoverApply { rows: word(replayed.rows), bytes, appliers: word(threads) }, []);
        }
        Ok((replayed, rows))
    }

    /// Loads the levels, and returns the object that replays the log over them.
    pub(crate) fn begin(self, meter: &mut Meter<'_>) -> Result<(Replay, LoadedLevels), EngineError> {
        let Self { levels, families, loaders, threads, seed } = self;
        let needed = levels.log_start().max(CHECKPOINT);
        let loaded = load(levels, families, loaders, meter)?;
        let carry = Carry::decode(&levels.log_carry());
        let carry = carry.map_err(|error| EngineError::Corruption { lsn: needed, what: error.what })?;
        let (appliers, flushed) = (Appliers::new(families, threads, seed), loaded.flushed.clone());
        let mut replay = Replay::over_levels(families, appliers, needed, flushed);
        if let Some(carry) = carry {
            families.note_used(CfId::new(carry.next_family.get().saturating_sub(1)));
            replay.xid_limit = carry.xid_limit;
            replay.quorum.extend(carry.quorum);
        }
        Ok((replay, loaded))
    }
}

/// Reads the log from `start` on and has it applied.
fn replay_log(
    log: &impl LogSource,
    start: Lsn,
    needed: Lsn,
    replay: &mut Replay,
    meter: &mut Meter<'_>,
) -> Result<(), EngineError> {
    let (bytes, mut records) = (log.end().bytes_since(start), 0_u64);
    meter.begin(OpenPhase::Replay, bytes);
    log.visit(start, |record| {
        replay.apply(record.lsn, record.tag, record.body)?;
        replay.previous_end = record.end;
        records += 1;
        if records.is_multiple_of(PROGRESS_RECORDS) {
            meter.note(record.end.bytes_since(start), replay.rows);
        }
        if replay.is_crowded() {
            // Scans from the start, so that it sees all records of the open transactions that replay has seen.
            meter.begin(OpenPhase::ScanChunks, bytes);
            let (mut scan, mut scanned) = (ChunkScan::new(needed), 0_u64);
            log.visit(start, |record| {
                scan.note(record.lsn, record.tag, record.body)?;
                scanned += 1;
                if scanned.is_multiple_of(PROGRESS_RECORDS) {
                    meter.note(record.end.bytes_since(start), 0);
                }
                Ok(())
            })?;
            replay.take_committed(scan.finish())?;
            let bytes_done = record.end.bytes_since(start);
            let rows = replay.rows;
            meter.go_on(OpenProgress { phase: OpenPhase::Replay, bytes_done, bytes_total: bytes, rows });
        }
        Ok(())
    })
}

/// Calls [`open_log`] under [`watched`].
fn open_log_watched(
    env: &Env,
    dir: &Path,
    options: collie_wal::Options,
    flushed: Lsn,
    meter: &mut Meter<'_>,
) -> Result<(Log, Recovered), EngineError> {
    let checked = options.checked.clone();
    watched(env, dir, &checked, meter, || open_log(env, dir, options, flushed))
}

/// Runs `open` on a thread of its own, and reports its progress; on a simulated disk, where no time passes, on this
/// one.
pub(crate) fn watched<R: Send>(
    env: &Env,
    dir: &Path,
    checked: &Checked,
    meter: &mut Meter<'_>,
    open: impl FnOnce() -> Result<R, EngineError> + Send,
) -> Result<R, EngineError> {
    meter.begin(OpenPhase::Verify, 0);
    if !env.files.is_real() {
        return open();
    }
    std::thread::scope(|scope| {
        let (tell, told) = channel::<()>();
        let opening = std::thread::Builder::new().name("collie-open-log".to_owned()).spawn_scoped(scope, move || {
            let opened = open();
            drop(tell);
            opened
        });
        let opening = opening.map_err(|error| EngineError::io("start a thread for", dir.to_owned(), error))?;
        while let Err(RecvTimeoutError::Timeout) = told.recv_timeout(LOOK_EVERY) {
            let (done, total) = checked.bytes();
            meter.note_of(done, total, 0);
        }
        opening.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Opens the log. `point_in_time` may go back to the position that the levels have reached, and no further: an
/// opening that would do so is refused before anything is written.
fn open_log(
    env: &Env,
    dir: &Path,
    options: collie_wal::Options,
    flushed: Lsn,
) -> Result<(Log, Recovered), EngineError> {
    if options.recovery_mode == RecoveryMode::PointInTime && flushed > Lsn::ZERO {
        let recovery_mode = RecoveryMode::TolerateCorruptedTailRecords;
        match Log::open(env, dir, collie_wal::Options { recovery_mode, ..options.clone() }) {
            Err(
                WalError::Damaged { lsn: end, .. }
                | WalError::MissingSegment { lsn: end, .. }
                | WalError::Shortened { lsn: end, .. },
            ) if end < flushed => return Err(EngineError::LogBehindLevels { end, flushed }),
            Err(_damage_that_may_go) => {}
            opened => return Ok(opened?),
        }
    }
    Ok(Log::open(env, dir, options)?)
}

/// Reads the identity of the directory, or gives it one. Returns whether it was created.
fn identify(dir: &Path, options: &Options, env: &Env) -> Result<(Control, bool), EngineError> {
    if let Some(control) = Control::read(env, dir)? {
        owner::check_owned(dir, env)?;
        return Ok((control, false));
    }
    if !options.create_if_missing {
        return Err(EngineError::NotFound { path: dir.to_owned() });
    }
    env.files.create_dir_all(dir).map_err(|error| EngineError::io("create", dir.to_owned(), error))?;
    let names = match env.files.list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(EngineError::io("list", dir.to_owned(), error)),
    };
    if let Some(found) = Control::first_foreign(&names) {
        return Err(EngineError::ForeignDirectory { path: dir.to_owned(), found });
    }
    owner::close(dir, env)?;
    let control = Control::draw(env);
    control.write(env, dir)?;
    Ok((control, true))
}

/// Adds the histories that the control file does not have yet. Returns whether there were any.
pub(crate) fn note_histories(control: &mut Control, histories: &[History]) -> bool {
    histories.iter().filter(|history| control.note_history(**history)).count() > 0
}
