//! Opens a database without writing a byte (`read_only`): recovers in memory the state that an ordinary opening
//! would find.
//!
//! This serves to inspect a database on a medium, or with permissions, that allows no writes, or a copy that must
//! not change. It refuses whatever an ordinary opening refuses.
//!
//! # Invariants
//! - D1. Nothing in any directory changes, not even a `LOCK`; a shared ring stays where it is.
//! - D2. The rows are those that an ordinary opening would find. While they are read, no process can open the
//!   database (`collie_wal::ReadLock`). Afterwards nothing in the directory is read again, so a later opening does
//!   no harm.
//! - D3. Every write is refused ([`EngineError::OpenedReadOnly`]).
//!
//! Checked by `crates/kv/tests/read_only.rs`.

use std::path::Path;
use std::sync::Arc;

use collie_base::Lsn;
use collie_env::Env;
use collie_store::Levels;
use collie_txn::Txns;
use collie_wal::{LogView, ReadLock, RecordRef, RecoveryMode};

use crate::dir::control::Control;
use crate::dir::descriptors::Descriptors;
use crate::dir::log_place::LogPlace;
use crate::dir::log_place::{copy_has_log_files, has_log_files};
use crate::families::Families;
use crate::log::EngineLog;
use crate::log::quorum_notes::QuorumNotes;
use crate::open::apply::appliers_for;
use crate::open::progress::{Meter, OpenPhase, OpenProgress};
use crate::open::replay::Replayed;
use crate::open::{CHECKPOINT, LogSource, Recovering, note_histories, watched};
use crate::shared::Shared;
use crate::shared::mode::Mode;
use crate::{EngineError, OpenReport, Options, families::names};

impl LogSource for LogView {
    fn end(&self) -> Lsn {
        self.end()
    }

    fn visit(
        &self,
        from: Lsn,
        mut visit: impl FnMut(RecordRef<'_>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        self.visit(|record| if record.lsn < from { Ok(()) } else { visit(record) })
    }
}

pub(crate) fn open(
    dir: &Path,
    options: &Options,
    descriptors: Descriptors,
    env: &Env,
    progress: &mut dyn FnMut(&OpenProgress),
) -> Result<(Arc<Shared>, OpenReport), EngineError> {
    let nothing_there = || EngineError::NotFound { path: dir.to_owned() };
    let Some(control) = Control::read(env, dir)? else { return Err(nothing_there()) };
    let place = LogPlace::find(env, dir, options.wal_dir.as_deref(), &options.log.copies, &control)?;
    let log_dir = place.dir().to_owned();
    let mut log_options = options.log.clone();
    let has_log = has_log_files(&log_dir, env)? || log_options.copies.iter().any(|copy| copy_has_log_files(copy, env));
    let lock = if has_log { Some(ReadLock::take(env, &log_dir, &log_options.copies)?) } else { None };
    // Read again: another process may have changed the directory before the lock was taken.
    let mut control = Control::read(env, dir)?.ok_or_else(nothing_there)?;
    let levels_dir = Control::levels_dir(dir);
    let noted = Levels::noted_in(env, &levels_dir).map_err(EngineError::levels)?;
    let (needed, flushed, had_history) =
        (noted.log_start.max(CHECKPOINT), noted.flushed, !control.histories.is_empty());
    let Some(lock) = lock else {
        return Err(match had_history {
            true => EngineError::MissingLog { path: log_dir, start: None, needed },
            false => nothing_there(), // the creation of this database was interrupted
        });
    };
    log_options.known_start = had_history.then_some(needed);
    log_options.known_durable = Some(flushed).filter(|flushed| *flushed > Lsn::ZERO);
    let mut meter = Meter::new(progress);
    let checked = log_options.checked.clone();
    let view = watched(env, dir, &checked, &mut meter, || Ok(LogView::of(env, &log_dir, &log_options, &lock)?))?;
    let (start, end) = (view.start(), view.end());
    if log_options.recovery_mode == RecoveryMode::PointInTime && end < flushed {
        return Err(EngineError::LogBehindLevels { end, flushed });
    }
    if had_history && start > needed {
        return Err(EngineError::MissingLog { path: log_dir, start: Some(start), needed });
    }
    let levels = Levels::open_to_read(env, &levels_dir, &options.levels).map_err(EngineError::levels)?;
    let families = Arc::new(Families::with_levels());
    let threads = appliers_for(options.recovery_threads);
    let loaders = if env.files.is_real() { threads.min(descriptors.loaders) } else { 1 };
    let recovering = Recovering { levels: &levels, families: &families, loaders, threads, seed: env.random.u64() };
    let (replayed, level_rows) = recovering.from(&view, start, &mut meter)?;
    lock.release(env)?; // D2
    let Replayed { rows, xid_limit: first_xid, incarnations, old_bytes, .. } = replayed;
    let (_forgotten, cleared_bytes) = names::after_replay(&families)?;
    note_histories(&mut control, &incarnations);

    let txns = Txns::new(EngineLog::ended(end, Vec::new()), options.txn(first_xid));
    let mode = Mode::ReadOnly { control, refusal: EngineError::OpenedReadOnly };
    let shared = Arc::new(Shared::new((families, txns), mode, QuorumNotes::default(), first_xid, options, env));
    shared.garbage.loaded(old_bytes);
    shared.garbage.freed(cleared_bytes);
    shared.txns.tick(shared.now());
    let bytes = end.bytes_since(start);
    meter.go_on(OpenProgress { phase: OpenPhase::Done, bytes_done: bytes, bytes_total: bytes, rows });
    let report = OpenReport {
        created: false,
        notices: view.notes().to_vec(),
        damaged: Vec::new(),
        rows,
        level_rows,
        log_bytes: bytes,
        incarnation: view.incarnation(),
        ring_outlives_process: false,
        read_only: true,
    };
    Ok((shared, report))
}
