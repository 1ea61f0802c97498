//! How the last incarnation of a log ended, and what it left: the files and the shared ring of the dead process,
//! combined.

use std::path::Path;

use collie_base::Lsn;
use collie_env::Env;

use crate::{
    Options, RecoveryMode, WalError, recovery::dead_ring::DeadRing, recovery::dead_ring::Found, scan::Damage,
    scan::Scan, scan::misplaced::Cause, scan::misplaced::Shortened, scan::misplaced::refuse_late_start,
};

/// How the last incarnation of a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// There was none: the log is new.
    New,
    /// It was closed.
    Clean,
    /// It was not closed.
    Unclean,
}

impl Scan {
    /// Returns the damage as an error.
    pub(crate) fn damage_error(&self) -> Option<WalError> {
        let Damage { lsn, path, offset, bad, durable, cause } = self.damage.clone()?;
        Some(match cause {
            Cause::Bytes => {
                WalError::Damaged { lsn, path, offset, stored: bad.stored, computed: bad.computed, durable }
            }
            Cause::Shortened(Shortened { path, bytes, segment_bytes }) => {
                WalError::Shortened { path, bytes, segment_bytes, lsn, durable }
            }
            Cause::Missing(missing) => WalError::MissingSegment { missing, lsn, durable },
        })
    }

    /// Returns the line about a trimmed tail, if one was trimmed.
    pub(crate) fn torn_note(&self) -> Option<String> {
        let (path, offset) = self.tail()?;
        let name = path.file_name()?.to_string_lossy();
        (self.torn_bytes > 0 && self.damage.is_none()).then(|| {
            format!(
                "wal: dropped an unfinished flush of {} bytes after LSN {} ({name} offset {offset}); no later frame relied on it",
                self.torn_bytes, self.end
            )
        })
    }

    /// Returns how the last incarnation ended, according to the files.
    ///
    /// # Errors
    /// [`WalError::Unfinished`] if it was not closed and `mode` requires a clean close.
    pub(crate) fn ending(&self, mode: RecoveryMode) -> Result<Ending, WalError> {
        let ending = match (self.spans.is_empty() && self.damage.is_none(), self.clean && self.damage.is_none()) {
            (true, _) => Ending::New,
            (_, true) => Ending::Clean,
            _ => Ending::Unclean,
        };
        match (mode, ending, self.tail()) {
            (RecoveryMode::AbsoluteConsistency, Ending::Unclean, Some((path, offset))) => {
                Err(WalError::Unfinished { lsn: self.end, path: path.to_owned(), offset })
            }
            _ => Ok(ending),
        }
    }
}

/// Scans the files with `look`, which gets the position up to which the log is known to have been durable, and the
/// shared ring of the previous incarnation, which may know a higher one.
pub(crate) fn scan_with_ring<G>(
    env: &Env,
    dir: &Path,
    options: &Options,
    notes: &mut Vec<String>,
    look: impl Fn(Option<Lsn>) -> Result<(G, Scan), WalError>,
) -> Result<(G, Scan, Option<DeadRing>), WalError> {
    let (mut files, mut found) = look(options.known_durable)?;
    if found.damage.is_none() {
        refuse_late_start(&found, options.known_start)?;
    }
    let ring = find_ring(env, dir, options, &found, notes)?;
    if let Some(ring) = &ring {
        if ring.durable > found.end && found.damage.is_none() {
            // The durable position in the ring is proof too.
            (files, found) = look(options.known_durable.max(Some(ring.durable)))?;
        }
        if found.damage.is_none() {
            // The ring has the bytes behind the end, so nothing is torn.
            found.torn_bytes = 0;
        }
    }
    notes.extend(found.torn_note());
    Ok((files, found, ring))
}

/// Looks for the shared ring of the previous incarnation.
fn find_ring(
    env: &Env,
    dir: &Path,
    options: &Options,
    found: &Scan,
    notes: &mut Vec<String>,
) -> Result<Option<DeadRing>, WalError> {
    let Some(log_id) = found.log_id.filter(|_| !found.clean && !mistake!("RING_NOT_READ")) else { return Ok(None) };
    match DeadRing::find(env, dir, &options.ring_dir, log_id, found.chain_incarnation) {
        Ok(Found::Ring(ring)) => return Ok(Some(ring)),
        Ok(Found::Nothing) => {}
        Ok(Found::Ignored(line)) => notes.push(line),
        Err(error @ WalError::Damaged { .. }) if options.recovery_mode == RecoveryMode::PointInTime => {
            notes.push(format!("{error}; opened without them as wal.recovery_mode = point_in_time asks"));
        }
        Err(error) => return Err(error),
    }
    Ok(None)
}

/// Returns the records that only the ring has, and their end. With `lossy` unreadable ones are left out with a line.
pub(crate) fn take_from_ring(
    ring: Option<&DeadRing>,
    found: &Scan,
    ending: Ending,
    lossy: bool,
    notes: &mut Vec<String>,
) -> Result<(Vec<u8>, Lsn), WalError> {
    let nothing = (Vec::new(), found.end);
    let Some(ring) = ring.filter(|ring| ending == Ending::Unclean && ring.end > found.end) else { return Ok(nothing) };
    let path = ring.path().display();
    if found.damage.is_some() {
        let (end, from) = (ring.end, found.end);
        notes.push(format!(
            "wal: the shared ring {path} reaches to LSN {end}, but what lies between {from} and its records is lost: not used"
        ));
        return Ok(nothing);
    }
    let records = match ring.records_from(found.end) {
        Err(error @ WalError::Damaged { .. }) if lossy => {
            notes.push(format!("{error}; opened without them as wal.recovery_mode = point_in_time asks"));
            return Ok(nothing);
        }
        records => records?,
    };
    notes.push(format!(
        "wal: took {} bytes above LSN {} from the shared ring {path}: the process before ended without writing them",
        records.len(),
        found.end
    ));
    Ok((records, ring.end))
}
