//! Opens a database read-only from the readable parts of a damaged log or damaged LSM levels (`wal.recovery_mode =
//! skip_any_corrupted_records`).
//!
//! It serves to look at the data and copy it out, when no copy, replica or backup has all of it. The rows are those of
//! every transaction that can be read whole. A later transaction counts even if an earlier one is lost, so the rows may
//! form a state that never existed: rows that a lost transaction deleted are there again.
//!
//! # Invariants
//! - R1. Nothing in the directory is changed except the holder's process id in the log's `LOCK`. A shared ring is
//!   reported and stays for an opening that can continue from it: its records are taken by writing them to the log
//!   before anything else.
//! - R2. A transaction is there whole or not at all (`replay` P4).
//! - R4. The LSM levels are read once a part of the log was released: before that, the log has everything that they
//!   have, except unlogged writes. Every tree that is whole counts, and each other one is reported with its families,
//!   of which only the rows in the remaining log are there. Without MANIFEST no tree counts.
//! - R3. Every lost stretch is reported, up to [`HOLES_TOLD`] one by one, and so is the number of transactions that
//!   lost a part.
//!
//! Checked by `tests/salvaged.rs`: every frame of a log damaged, one at a time; every file of the LSM levels.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use collie_base::{CfId, Lsn};
use collie_env::Env;
use collie_store::{Levels, LevelsError};
use collie_txn::Txns;
use collie_wal::{Salvaged, salvage_locked};

use crate::dir::control::Control;
use crate::dir::log_place::LogPlace;
use crate::families::Families;
use crate::log::EngineLog;
use crate::log::quorum_notes::QuorumNotes;
use crate::open::Recovering;
use crate::open::apply::{Appliers, appliers_for};
use crate::open::progress::{Meter, PROGRESS_RECORDS};
use crate::open::replay::{Replay, Replayed};
use crate::shared::Shared;
use crate::shared::mode::Mode;
use crate::{EngineError, OpenPhase, OpenProgress, OpenReport, Options, families::names};

/// Number of holes that are reported one by one.
const HOLES_TOLD: u64 = 20;

pub(crate) fn open(
    dir: &Path,
    options: &Options,
    env: &Env,
    progress: &mut dyn FnMut(&OpenProgress),
) -> Result<(Arc<Shared>, OpenReport), EngineError> {
    let Some(control) = Control::read(env, dir)? else { return Err(EngineError::NotFound { path: dir.to_owned() }) };
    let mut lost = Lost::default();
    let levels = lost.whole_levels(dir, options, env)?;
    let place = LogPlace::find(env, dir, options.wal_dir.as_deref(), &options.log.copies, &control)?;
    let mut log = salvage_locked(env, place.dir(), &options.log.copies)?;
    let mut meter = Meter::new(progress);
    let families = Arc::new(if levels.is_some() { Families::with_levels() } else { Families::new() });
    let threads = appliers_for(options.recovery_threads);
    let (mut replay, level_rows) = match &levels {
        Some(levels) => {
            let seed = env.random.u64();
            let recovering = Recovering { levels, families: &families, loaders: 1, threads, seed };
            let (replay, loaded) = recovering.begin(&mut meter)?;
            (replay, loaded.rows)
        }
        None => (Replay::new(&families, Appliers::new(&families, threads, env.random.u64())), 0),
    };
    let needed = levels.as_ref().map_or(Lsn::FIRST, Levels::log_start).max(Lsn::FIRST);
    let start = log.start();
    let mut end = start;
    lost.ring = log.ring(env, &options.log.ring_dir);
    let total = log.durable();
    meter.begin(OpenPhase::Replay, total.max(start).bytes_since(start));
    let mut records = 0_u64;
    for piece in &mut log {
        let to = match piece? {
            Salvaged::Record(record) => {
                match replay.apply(record.lsn, record.tag, &record.body) {
                    Err(EngineError::Corruption { .. }) => lost.transactions += 1,
                    applied => applied?,
                }
                records += 1;
                record.end
            }
            Salvaged::Hole(hole) => {
                replay.gap();
                lost.take(&hole.to_string(), hole.to.bytes_since(hole.from));
                hole.to
            }
        };
        end = end.max(to);
        if records.is_multiple_of(PROGRESS_RECORDS) {
            meter.note_of(end.bytes_since(start), total.max(end).bytes_since(start), replay.rows);
        }
    }
    if start > needed {
        lost.take(&format!("wal: everything from LSN {needed} to {start} is gone"), start.bytes_since(needed));
    }
    let Replayed { rows, xid_limit: first_xid, incarnations, .. } = replay.finish();
    // Unreadable names do not keep the rows from being read.
    if let Err(error) = names::after_replay(&families) {
        lost.names = Some(error.to_string());
    }
    let incarnation = incarnations.len() as u64;
    let txns = Txns::new(EngineLog::ended(end, log.into_locks()), options.txn(first_xid));
    let mode = Mode::ReadOnly { control, refusal: EngineError::Salvaged };
    let shared = Arc::new(Shared::new((families, txns), mode, QuorumNotes::default(), first_xid, options, env));
    let bytes = end.bytes_since(start);
    meter.go_on(OpenProgress { phase: OpenPhase::Done, bytes_done: bytes, bytes_total: bytes, rows });
    let damaged = std::mem::take(&mut lost.families);
    let report = OpenReport {
        created: false,
        notices: lost.notices(),
        damaged,
        rows,
        level_rows,
        log_bytes: bytes,
        incarnation,
        ring_outlives_process: false,
        read_only: true,
    };
    Ok((shared, report))
}

/// The parts that could not be read.
#[derive(Debug, Default)]
struct Lost {
    holes: u64,
    bytes: u64,
    lines: Vec<String>,
    /// Number of transactions that lost a part.
    transactions: u64,
    /// The ring of a killed process in memory, which is not read.
    ring: Option<PathBuf>,
    /// Reason for which families could not be looked up by their names.
    names: Option<String>,
    /// Families of trees that are not whole.
    families: Vec<CfId>,
}

impl Lost {
    /// Returns the LSM levels with the trees that are whole, if the database needs them (R4).
    fn whole_levels(&mut self, dir: &Path, options: &Options, env: &Env) -> Result<Option<Levels>, EngineError> {
        let levels_dir = Control::levels_dir(dir);
        let log_start = match Levels::noted_in(env, &levels_dir) {
            Ok(noted) => noted.log_start,
            Err(error @ LevelsError::ManifestDamaged { .. }) => {
                self.lines.push(format!("levels: {error}: nothing of them is shown, but what the log has too"));
                return Ok(None);
            }
            Err(error) => return Err(EngineError::levels(error)),
        };
        if log_start <= Lsn::FIRST {
            return Ok(None);
        }
        let opened = Levels::open_to_salvage(env, &levels_dir, &options.levels);
        let (levels, faults) = opened.map_err(EngineError::levels)?;
        for fault in faults {
            self.lines
                .push(format!("levels: {fault}: of these there is only what the log still has, from {log_start} on"));
            if let LevelsError::TreeDamaged { cfs, .. } | LevelsError::LiveKeysDiffer { cfs, .. } = fault {
                self.families.extend(cfs);
            }
        }
        Ok(Some(levels))
    }

    fn take(&mut self, line: &str, bytes: u64) {
        self.holes += 1;
        self.bytes += bytes;
        if self.holes <= HOLES_TOLD {
            self.lines.push(line.to_owned());
        }
    }

    fn notices(mut self) -> Vec<String> {
        if self.holes > HOLES_TOLD {
            let more = self.holes - HOLES_TOLD;
            self.lines.push(format!("wal: {more} more stretches are lost: collie wal dump --skip-bad lists them"));
        }
        if let Some(ring) = self.ring {
            self.lines.push(format!(
                "wal: the shared ring {} may hold commits that are in no file: they are not shown; copy it aside, opening \
                 with another wal.recovery_mode may remove it",
                ring.display()
            ));
        }
        self.lines.extend(self.names.take());
        let Self { holes, bytes, transactions, .. } = self;
        self.lines.push(format!(
            "opened read-only as wal.recovery_mode = skip_any_corrupted_records asks; stretches of the log that are \
             lost: {holes}, bytes in them: {bytes}, transactions left out because a part of them lay there: \
             {transactions}; rows may be a state that never was"
        ));
        self.lines
    }
}
