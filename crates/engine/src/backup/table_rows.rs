//! `TableRows`: how many rows the table files of a directory of levels have, for who measures how they are copied.

use std::path::{Path, PathBuf};

use collie_base::Map;
use collie_env::Env;
use collie_obs::BackupChunk;
use collie_store::{LevelOptions, Levels};

/// Rows by file. What is not there has none: logs, lists and the like.
#[derive(Debug, Default)]
pub(super) struct TableRows(Map<PathBuf, u64>);

impl TableRows {
    /// Asks the levels in `dir`, if pieces of files are measured at all. Of levels that cannot be read nothing is known: who copies them
    /// finds what is wrong with them.
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

/// Returns how many of the `rows` of a file of `file_bytes` a piece of `bytes` at `at` has, taking all rows to be of one size: the pieces of
/// a file have all its rows together.
pub(super) fn share(rows: u64, file_bytes: u64, (at, bytes): (u64, usize)) -> u64 {
    let before = |at: u64| u128::from(rows) * u128::from(at.min(file_bytes)) / u128::from(file_bytes.max(1));
    u64::try_from(before(at + bytes as u64) - before(at)).unwrap_or(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no row is told of twice, or in no piece. Method: files of several sizes in pieces that do not divide them.
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
