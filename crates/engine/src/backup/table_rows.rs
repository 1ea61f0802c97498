//! `TableRows`: the number of rows in each table file of a levels directory, for measuring how files are copied.

use std::path::{Path, PathBuf};

use collie_base::Map;
use collie_env::Env;
use collie_obs::BackupChunk;
use collie_store::{LevelOptions, Levels};

/// Rows by file. Files that are not listed, such as logs and lists, have none.
#[derive(Debug, Default)]
pub(super) struct TableRows(Map<PathBuf, u64>);

impl TableRows {
    /// Reads the numbers from the levels in `dir`, if pieces of files are measured at all. If the levels cannot be
    /// read, no numbers are known; the copy itself will report the fault.
    pub(super) fn of(env: &Env, dir: &Path) -> Self {
        if !collie_obs::is_measured::<BackupChunk>() {
            return Self::default();
        }
        let levels = Levels::open_to_read(env, dir, &LevelOptions::default());
        Self(levels.and_then(|levels| levels.file_rows()).unwrap_or_default().into_iter().collect())
    }

    /// Returns the rows of the file at `path`.
    pub(super) fn of_file(&self, path: &Path) -> u64 {
        self.0.get(path).copied().unwrap_or(0)
    }
}

/// Returns the number of the `rows` of a file of `file_bytes` that are in a piece of `bytes` at `at`, assuming
/// rows of equal size. The shares of all pieces of a file add up to `rows`.
pub(super) fn share(rows: u64, file_bytes: u64, (at, bytes): (u64, usize)) -> u64 {
    let before = |at: u64| u128::from(rows) * u128::from(at.min(file_bytes)) / u128::from(file_bytes.max(1));
    u64::try_from(before(at + bytes as u64) - before(at)).unwrap_or(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every row is counted in exactly one piece. Method: files of several sizes in pieces that do not
    /// divide them.
    #[test]
    fn pieces_have_the_rows_of_their_file() {
        for (rows, file_bytes, piece) in
            [(57, 4_000, 1_000), (7, 100_000, 4_096), (1 << 40, u64::MAX >> 12, 1 << 50), (3, 1, 64)]
        {
            let pieces = (0..file_bytes).step_by(piece);
            let told: u64 = pieces.map(|at| share(rows, file_bytes, (at, piece))).sum();
            assert_eq!(told, rows, "{file_bytes} bytes in pieces of {piece}");
        }
        assert_eq!([share(57, 4_000, (0, 1_000)), share(0, 4_000, (0, 1_000)), share(5, 0, (0, 0))], [14, 0, 0]);
    }
}
