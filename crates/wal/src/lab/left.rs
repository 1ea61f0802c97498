//! `Left`: the result of salvages of a crash state. A crash state is no damage: an opening makes a whole log of it.
//!
//! # Oracles
//! - G1. A salvage yields the records that the opening yields, and declares no hole.
//! - G2. The same holds for a salvage by position, the path for a damaged log, over the files that the opening reads.
//!   It may only continue where the opening stops: with records that were written and not acknowledged.
//!
//! Checked by the mistake `SALVAGE_PAST_THE_END` (`tests/lab.rs`).

use std::path::{Path, PathBuf};

use collie_env::{Env, SimFiles};

use crate::{
    Lsn, Salvage, Salvaged, WalError,
    copies::surveyed,
    lab::{
        model::Yield,
        workload::{DIR, Layout, lab_options},
    },
    recovery::salvage::{by_position, salvage_locked},
};

/// Start, end and body of each record.
type Records = Vec<(Lsn, Lsn, Vec<u8>)>;

/// The records that salvages read of a whole log.
pub(crate) struct Left {
    records: Records,
    /// Records of the salvage by position, the path for a damaged log.
    pub(crate) pieces: Records,
}

impl Left {
    /// Reads the log on `disk`, which is closed.
    pub(crate) fn of(disk: &SimFiles, layout: Layout) -> Result<Self, String> {
        // A separate disk, because the locks that a salvage takes are names on it.
        let point = disk.crash_point();
        let (env, dir) = (Env::over(point.state(&point.all_kept()), 4), Path::new(DIR));
        let copies = layout.apply(lab_options()).copies;
        let records = all_of(salvage_locked(&env, dir, &copies)).map_err(|error| format!("salvage: {error}"))?;
        let pieces = || {
            let there = |dir: &&Path| env.files.list(dir).is_ok();
            let dirs = std::iter::once(dir).chain(copies.iter().map(PathBuf::as_path));
            let there: Vec<PathBuf> = dirs.filter(there).map(Path::to_owned).collect();
            let alone = copies.is_empty() || there.is_empty();
            let files = if alone { env.files.clone() } else { surveyed(&env.files, dir, &there)?.0 };
            by_position(&files, dir, Vec::new())
        };
        let pieces = all_of(pieces()).map_err(|error| format!("salvage by position: {error}"))?;
        Ok(Self { records, pieces })
    }

    /// Compares the records with those that an opening yields.
    pub(crate) fn compare(&self, yielded: &Yield) -> Result<(), String> {
        let (records, pieces, opened) = (self.records.len(), self.pieces.len(), yielded.records.len());
        if self.records != yielded.records {
            return Err(format!("salvage reads {records} records, opening {opened}"));
        }
        if !self.pieces.starts_with(&yielded.records) {
            return Err(format!("salvage by position reads {pieces} records, opening {opened}"));
        }
        Ok(())
    }
}

/// Returns the records that a salvage yields; a hole is an error.
fn all_of(salvage: Result<Salvage, WalError>) -> Result<Records, String> {
    let mut records = Vec::new();
    let pieces = match salvage {
        // The log does not exist yet.
        Err(WalError::Io { .. }) => return Ok(records),
        pieces => pieces.map_err(|error| error.to_string())?,
    };
    for piece in pieces {
        match piece.map_err(|error| error.to_string())? {
            Salvaged::Record(record) => records.push((record.lsn, record.end, record.body)),
            Salvaged::Hole(hole) => return Err(format!("of a log that is whole: {hole}")),
        }
    }
    Ok(records)
}
