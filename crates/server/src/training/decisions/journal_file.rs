//! [`JournalFile`]: the file `decisions` in the data directory (docs/format.md section 15). It is replaced as a whole
//! for each row: rows are added only a few times in ten minutes.

use std::{
    io,
    path::{Path, PathBuf},
};

use collie_env::{Env, read_all};
use collie_train::decision::{Entry, JOURNAL_NAME as NAME, Journal, Verdict, journal_header, read_journal};

/// The number of rows kept, in addition to those that keep a value.
const ROWS_MAX: usize = 1000;
/// More than the largest possible file has.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct JournalFile {
    env: Env,
    dir: PathBuf,
    entries: Vec<Entry>,
}

/// Leaves out the oldest rows beyond the limit, but none that holds the last kept value of a setting.
fn bounded(mut entries: Vec<Entry>) -> Vec<Entry> {
    let beyond = entries.len().saturating_sub(ROWS_MAX);
    if beyond > 0 {
        let is_kept = |entry: &Entry| matches!(entry.row.verdict, Verdict::Kept { .. });
        let newest_kept = |entry: &Entry, later: &[Entry]| {
            !later.iter().any(|other| is_kept(other) && other.row.setting == entry.row.setting)
        };
        let stays: Vec<bool> = (0..entries.len())
            .map(|at| at >= beyond || is_kept(&entries[at]) && newest_kept(&entries[at], &entries[at + 1..]))
            .collect();
        let mut stays = stays.into_iter();
        entries.retain(|_| stays.next().unwrap_or(true));
    }
    entries
}

impl JournalFile {
    /// Reads the journal in the data directory `dir`; a missing one has no rows. Also returns a line for the log about
    /// rows that were left out.
    ///
    /// # Errors
    /// Those of the disk; `InvalidData` for a file that is no journal, or that a newer version has written.
    pub(super) fn open(env: Env, dir: &Path) -> io::Result<(Self, Option<String>)> {
        let path = dir.join(NAME);
        let journal = match read_all(&*env.files, &path, FILE_BYTES_MAX) {
            Ok(bytes) => {
                read_journal(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Journal::default(),
            Err(error) => return Err(error),
        };
        let Journal { entries, left_out, .. } = journal;
        let told =
            (left_out > 0).then(|| format!("{}: the last {left_out} bytes are damaged and left out", path.display()));
        Ok((Self { env, dir: dir.to_owned(), entries }, told))
    }

    /// Returns the rows, oldest first.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Those of the disk: the journal is then with the row or without it, and the call may be retried.
    ///
    /// # Durability
    /// The row survives a power cut once this returns.
    pub(super) fn add(&mut self, entry: Entry) -> io::Result<()> {
        let mut entries = self.entries.clone();
        entries.push(entry);
        let entries = bounded(entries);
        let bytes = entries.iter().fold(journal_header(), |mut bytes, entry| {
            bytes.extend_from_slice(&entry.encode());
            bytes
        });
        self.replace(&bytes)?;
        self.entries = entries;
        Ok(())
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let (path, temporary) = (self.dir.join(NAME), self.dir.join(format!("{NAME}.new")));
        let files = &*self.env.files;
        match files.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = files.create(&temporary)?;
        file.write_at(0, bytes)?;
        file.sync_data()?;
        files.replace(&temporary, &path)
    }
}

#[cfg(test)]
mod tests {
    use collie_train::decision::{Gain, Row, Setting, kept_values};

    use super::{super::world::after_power_cut, *};

    fn row(id: u64, setting: Setting, verdict: Verdict) -> Entry {
        let gain = Gain { low: 0.1, expected: 0.2, high: 0.3 };
        let (old, new) = (1.0, 2.0 + id as f64);
        Entry::from(Row { id, at_s: id, setting, old, new, model_hash: 0, gain, trial_p: None, verdict })
    }

    /// Goal: added rows survive a power cut, and a crash in between leaves the journal as it was. Method: rows, each
    /// call of the disk failing in turn, and the states that a power cut leaves.
    #[test]
    fn rows_survive_a_power_cut_once_they_were_added() {
        let dir = Path::new("/data");
        for call in 1..12 {
            let (env, disk) = Env::simulated(call);
            env.files.create_dir_all(dir).unwrap();
            let (mut journal, told) = JournalFile::open(env, dir).unwrap();
            assert_eq!((journal.entries().len(), told), (0, None));
            journal.add(row(1, Setting::FlushDelay, Verdict::Trial)).unwrap();
            disk.fail_call(disk.calls() + call, collie_env::Fault::Eio);
            let is_added = journal.add(row(1, Setting::FlushDelay, Verdict::Canary { until_s: 9 })).is_ok();
            assert!(is_added || call < 10, "call {call}: fewer calls are made");
            let count = journal.entries().len();
            assert_eq!(count, 1 + usize::from(is_added));
            for seed in 0..20 {
                let (after, _) = JournalFile::open(Env::over(after_power_cut(&disk, seed), 1), dir).unwrap();
                assert!(
                    after.entries().len() >= count && after.entries()[..count] == *journal.entries(),
                    "call {call}"
                );
            }
            disk.clear_faults();
            journal.add(row(1, Setting::FlushDelay, Verdict::Interrupted)).unwrap();
            assert_eq!(journal.entries().len(), count + 1, "it can be tried again");
        }
    }

    /// Goal: the journal does not grow without limit, and forgets no kept value. Method: more rows than are kept after
    /// two values, of which one is still the last of its setting, and the values that a reader finds.
    #[test]
    fn values_that_were_kept_outlast_a_thousand_rows() {
        let (env, _disk) = Env::simulated(1);
        let dir = Path::new("/data");
        env.files.create_dir_all(dir).unwrap();
        let (mut journal, _) = JournalFile::open(env.clone(), dir).unwrap();
        let kept = Verdict::Kept { gain: 0.1 };
        let mut entries = vec![row(0, Setting::GcInterval, kept), row(1, Setting::FlushDelay, kept)];
        entries.extend((2..1200).map(|id| row(id, Setting::FlushBytes, Verdict::Worse)));
        journal.entries = entries;
        journal.add(row(1200, Setting::GcInterval, kept)).unwrap();
        let (journal, told) = JournalFile::open(env, dir).unwrap();
        assert_eq!((journal.entries().len(), told), (ROWS_MAX + 1, None));
        let mut values = kept_values(journal.entries());
        values.sort_by_key(|(setting, _)| *setting);
        assert_eq!(values, [(Setting::FlushDelay, 3.0), (Setting::GcInterval, 1202.0)]);
    }

    /// Goal: damage costs the rows after it and is reported; a file that is no journal is an error, and not an empty
    /// journal that would then be overwritten. Method: a flipped bit in the last row, then in the header.
    #[test]
    fn damage_is_told() {
        let (env, disk) = Env::simulated(1);
        let dir = Path::new("/data");
        env.files.create_dir_all(dir).unwrap();
        let (mut journal, _) = JournalFile::open(env.clone(), dir).unwrap();
        for id in 0..2 {
            journal.add(row(id, Setting::FlushDelay, Verdict::Worse)).unwrap();
        }
        let path = dir.join(NAME);
        let bytes = env.files.open(&path, collie_env::Access::Read).unwrap().len().unwrap();
        disk.flip(&path, bytes - 1, 1).unwrap();
        let (damaged, told) = JournalFile::open(env.clone(), dir).unwrap();
        assert_eq!(damaged.entries(), &journal.entries()[..1]);
        assert!(told.unwrap().contains("are damaged and left out"));
        disk.flip(&path, 0, 1).unwrap();
        assert_eq!(JournalFile::open(env, dir).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
