//! Checks a copy: finds the files that are not as they were made, or that were already damaged when the copy was
//! made (K7).

use std::io;
use std::path::{Path, PathBuf};

use collie_base::checksum::crc32c;
use collie_env::Env;

use super::Backup;
use super::inner::Inner;
use super::manifest::{ListedFile, Manifest, PIECE_BYTES};
use super::work::{CopyPhase, CopyWatch, Work};
use crate::EngineError;

/// A file of a copy that is not as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFault {
    /// The file.
    pub path: PathBuf,
    /// The offset of the first wrong byte; `None` if the file is missing or the fault has no offset.
    pub offset: Option<u64>,
    /// A description of the fault.
    pub what: String,
}

impl BackupFault {
    pub(super) fn into_error(self) -> EngineError {
        EngineError::BadBackup { path: self.path, offset: self.offset, what: self.what }
    }
}

/// Compares every file of the copy in `dir` with its size and checksums in the list, and each file that matches
/// with the checksums inside: tables and lists of the levels, MANIFEST, the control file, every frame of the log.
/// Returns a summary of the copy and a fault for each file that is not as it was made. Changes nothing. A copy
/// that was opened in place is not as it was made.
///
/// # Errors
/// [`EngineError::BadBackup`] if the list of files is missing or damaged; [`EngineError::NewerFormat`],
/// [`EngineError::Io`]; [`EngineError::Cancelled`] if `watch` returns `Break`.
pub fn verify_backup(dir: &Path, env: &Env, watch: CopyWatch<'_>) -> Result<(Backup, Vec<BackupFault>), EngineError> {
    let manifest = Manifest::read(env, dir)?;
    let mut work = Work::new(env, watch);
    work.phase(CopyPhase::Checking, manifest.bytes())?;
    let (mut faults, mut rotten) = (Vec::new(), Vec::new());
    let inner = Inner::of(env, dir);
    for listed in &manifest.files {
        let path = dir.join(&listed.name);
        let (mut check, mut table) = (Check::new(&path, listed), inner.check(&path));
        let read = work.read(&path, &mut |at, piece| {
            check.piece(at, piece);
            table.iter_mut().for_each(|table| table.piece(piece));
            Ok(())
        });
        match check.end(read)? {
            Some(fault) => faults.push(fault),
            None => rotten.extend(Inner::end(table)),
        }
    }
    if faults.is_empty() {
        faults = inner.rest(env, dir, &manifest)?;
    }
    faults.extend(rotten);
    Ok((manifest.summary(), faults))
}

/// Compares a file with its checksums.
pub(super) struct Check<'a> {
    path: &'a Path,
    listed: &'a ListedFile,
    fault: Option<BackupFault>,
}

impl<'a> Check<'a> {
    pub(super) fn new(path: &'a Path, listed: &'a ListedFile) -> Self {
        Self { path, listed, fault: None }
    }

    /// Checks the piece that begins at `at`.
    pub(super) fn piece(&mut self, at: u64, piece: &[u8]) {
        let number = usize::try_from(at / PIECE_BYTES as u64).unwrap_or(usize::MAX);
        let stored = self.listed.pieces.get(number).copied();
        let whole = self.listed.bytes.saturating_sub(at).min(PIECE_BYTES as u64);
        // A piece of another length is not compared: `end` reports a file of another size.
        if let Some(stored) = stored.filter(|_| self.fault.is_none() && piece.len() as u64 == whole) {
            let computed = crc32c(piece);
            if stored != computed {
                let what = format!(
                    "is not as it was made: checksum {computed:08x} of the {} bytes from there, {stored:08x} in the list",
                    piece.len()
                );
                self.fault = Some(self.fault(Some(at), what));
            }
        }
    }

    /// Takes the length of the file, or the error of reading it. Returns the fault, if any.
    pub(super) fn end(self, read: Result<u64, EngineError>) -> Result<Option<BackupFault>, EngineError> {
        match read {
            Ok(bytes) if bytes == self.listed.bytes || self.fault.is_some() => Ok(self.fault),
            Ok(bytes) => {
                let what = format!("has {bytes} bytes, and {} when it was made", self.listed.bytes);
                Ok(Some(self.fault(Some(bytes.min(self.listed.bytes)), what)))
            }
            Err(EngineError::Io { path, source, .. })
                if path == *self.path
                    && matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                Ok(Some(self.fault(None, "is missing".to_owned())))
            }
            Err(error) => Err(error),
        }
    }

    fn fault(&self, offset: Option<u64>, what: String) -> BackupFault {
        BackupFault { path: self.path.to_owned(), offset, what }
    }
}
