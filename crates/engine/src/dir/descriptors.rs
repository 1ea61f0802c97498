//! The budget of open files: the share of the process's limit that the LSM levels may use.
//!
//! The soft limit is raised to the hard one. The database and the program use 64 files of it (log, locks,
//! MANIFEST, threads), and each client connection one; the rest is for the tables of the LSM levels. They keep up
//! to half of that open; the other half is for merges and loads, which open one file per run. No file is held open
//! per segment of the log.

use collie_env::{Env, open_files_max};

use crate::options::JOBS_DEFAULT;
use crate::{EngineError, Options};

/// Files of the database and of the program around it, without tables.
const OWN: u64 = 64;
/// With fewer files for the LSM levels a database is not opened: two trees could not be merged in parallel.
const LEVELS_MIN: u64 = 128;
/// The most files that a load or a merge of one tree has open: a table of each run, of 64 level-0 runs and the
/// older levels.
const PER_TREE: u64 = 80;

/// The open files that the LSM levels may use, and the parallel work that they allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// Tables that are kept open.
    pub(crate) kept: usize,
    /// Trees that are loaded in parallel.
    pub(crate) loaders: usize,
    /// Flushes and re-logs at a time: as many as configured, but above the default only if there are files for
    /// their merges.
    pub(crate) jobs: usize,
}

impl Descriptors {
    /// Raises the limit of the process and divides it.
    ///
    /// # Errors
    /// [`EngineError::TooFewDescriptors`].
    pub(crate) fn of_process(env: &Env, options: &Options) -> Result<Self, EngineError> {
        Self::divide(open_files_max(&*env.files), options)
    }

    fn divide(limit: Option<u64>, options: &Options) -> Result<Self, EngineError> {
        let have = limit.unwrap_or(u64::MAX);
        let aside = OWN.saturating_add(u64::try_from(options.connections).unwrap_or(u64::MAX));
        let levels = have.saturating_sub(aside);
        if levels < LEVELS_MIN {
            return Err(EngineError::TooFewDescriptors { have, needed: aside.saturating_add(LEVELS_MIN) });
        }
        let half = levels / 2;
        let count = |files: u64| usize::try_from(files).unwrap_or(usize::MAX);
        let loaders = count(half / PER_TREE).max(1);
        let jobs = options.compaction_threads.min(loaders.max(JOBS_DEFAULT));
        Ok(Self { kept: options.levels.descriptors.min(count(half)), loaders, jobs })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: the LSM levels get the remaining files, and too low a limit is refused with the number that is
    /// needed. Method: limits around each bound.
    #[test]
    fn levels_get_what_connections_and_the_log_leave() {
        let options = |connections| Options { connections, ..Options::default() };
        let divide = |limit, connections| Descriptors::divide(limit, &options(connections));
        assert_eq!(divide(Some(192), 0).unwrap(), Descriptors { kept: 64, loaders: 1, jobs: 4 });
        assert_eq!(divide(Some(256), 0).unwrap(), Descriptors { kept: 96, loaders: 1, jobs: 4 });
        assert_eq!(divide(Some(1_192), 1_000).unwrap(), Descriptors { kept: 64, loaders: 1, jobs: 4 });
        assert_eq!(divide(Some(20_000), 1_000).unwrap(), Descriptors { kept: 8_192, loaders: 118, jobs: 4 });
        for (limit, asked, jobs) in [(256, 1, 1), (256, 64, 4), (64 + 2 * 80 * 9, 64, 9), (20_000, 64, 64)] {
            let options = Options { compaction_threads: asked, ..Options::default() };
            assert_eq!(Descriptors::divide(Some(limit), &options).unwrap().jobs, jobs, "{asked} of {limit} files");
        }
        assert_eq!(divide(None, 1_000).unwrap().kept, 8_192);
        for (limit, connections, needed) in [(191, 0, 192), (0, 0, 192), (1_191, 1_000, 1_192), (64, 1, 193)] {
            let refused = divide(Some(limit), connections).unwrap_err();
            assert!(
                matches!(refused, EngineError::TooFewDescriptors { have, needed: said } if have == limit && said == needed),
                "{refused}"
            );
        }
        assert!(divide(Some(u64::MAX), usize::MAX).is_err());
    }
}
