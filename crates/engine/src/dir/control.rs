//! The control file: the identity of this directory. It is replaced as a whole, by a rename, and read once at
//! open.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `COLLIEDB` |
//! | 8 | 4 | CRC-32C of everything from offset 12 to the end |
//! | 12 | 4 | format version, 2 |
//! | 16 | 16 | cluster id, random, for the life of the database |
//! | 32 | 8 | node id, random, for the life of the directory |
//! | 40 | 8 | term |
//! | 48 | 8 | on a replica, at least 1: no row is visible before replay has reached this position; otherwise 0 |
//! | 56 | 4 | number of histories |
//! | 60 | 32 each | a history, oldest first: term, id, position where it starts, end of the record before it (8 each) |
//!
//! All integers are little-endian. A reader refuses a bad checksum and a newer version. The file lists the newest
//! histories (`history_list.rs`). The log's INCARNATION records list them too, and win when the file is one
//! history behind after a crash.
//!
//! Version 1 lacks the field at 48 and the last field of a history, for which a reader uses the history's start.
//!
//! # Invariants
//! - C1. Every file that was written can be read again: a reader accepts larger files than a writer writes. Older
//!   programs added a history at each start after a crash, without a bound; their files are read, and the newest
//!   histories in them are kept.
//!
//! Checked by the tests below and by `tests/crash.rs` (C1).
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::io;
use std::path::{Path, PathBuf};

use collie_base::{HistoryId, Lsn, Term};
use collie_env::{Env, read_all};

use crate::EngineError;
use crate::dir::frame::{self, Refused};
use crate::dir::history_list::{HISTORIES_MAX, HistoryList};
use crate::redo::Incarnation;

const MAGIC: &[u8; 8] = b"COLLIEDB";
const FORMAT_VERSION: u32 = 2;
const NAME: &str = "control";
const TEMPORARY_NAME: &str = "control.new";
/// An operator may have put the replication key there before the database existed (docs/format.md).
const KEY_NAME: &str = "replication.key";
/// Room for more than half a million histories: a limit against garbage, not on use. Programs that wrote all
/// histories refused to read more than 1 MiB, so none left a file much larger than that.
const FILE_BYTES_MAX: usize = 16 << 20;
/// The size of a file with the fields above and no history.
const FIXED_BYTES: usize = 60;
/// The size of a history.
const HISTORY_BYTES: usize = 32;

const _: () = assert!(FIXED_BYTES + HISTORIES_MAX * HISTORY_BYTES <= FILE_BYTES_MAX, "C1");

/// A history: one line of log positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) term: Term,
    pub(crate) id: HistoryId,
    pub(crate) start: Lsn,
    /// The end of the record before it: positions jump from there to `start`.
    pub(crate) previous_end: Lsn,
}

impl History {
    /// Returns the history that begins with this record at `start`.
    pub(crate) const fn of(start: Lsn, previous_end: Lsn, incarnation: &Incarnation) -> Self {
        Self { term: incarnation.term, id: incarnation.history, start, previous_end }
    }
}

/// The contents of the control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) cluster: u128,
    pub(crate) node: u64,
    pub(crate) term: Term,
    /// On a replica, no row is visible before replay has reached this position; zero if the directory follows no
    /// database.
    pub(crate) consistent_at: Lsn,
    pub(crate) histories: HistoryList,
}

impl Control {
    /// The lowest `consistent_at` of a replica: it hides nothing.
    pub(crate) const FOLLOWS: Lsn = Lsn::new(1);

    /// Returns a new random identity.
    pub(crate) fn draw(env: &Env) -> Self {
        let word = || u128::from(env.random.u64());
        Self {
            cluster: word() << 64 | word(),
            node: env.random.u64(),
            term: Term::new(0),
            consistent_at: Lsn::ZERO,
            histories: HistoryList::default(),
        }
    }

    /// Adds a history unless it is known already or was forgotten. Returns whether it was added.
    pub(crate) fn note_history(&mut self, history: History) -> bool {
        let is_new = self.histories.note(history);
        if is_new {
            self.term = self.term.max(history.term);
        }
        is_new
    }

    /// Reads the file in `dir`; `None` if there is none.
    pub(crate) fn read(env: &Env, dir: &Path) -> Result<Option<Self>, EngineError> {
        let path = dir.join(NAME);
        let bytes = match read_all(&*env.files, &path, u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(EngineError::io("read", path, error)),
        };
        Self::decode(&bytes).map(Some).map_err(|error| match error {
            Refused::Newer(version) => EngineError::NewerFormat { path, version },
            Refused::Damaged(error) => EngineError::BadControlFile { path, what: error.what },
        })
    }

    /// Replaces the file in `dir`; the new one is durable when this returns.
    pub(crate) fn write(&self, env: &Env, dir: &Path) -> Result<(), EngineError> {
        let (temporary, path) = (dir.join(TEMPORARY_NAME), dir.join(NAME));
        let files = &*env.files;
        let fail = |op| {
            let path = path.clone();
            move |error| EngineError::io(op, path, error)
        };
        match files.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail("remove")(error)),
            _ => {}
        }
        let file = files.create(&temporary).map_err(fail("create"))?;
        file.write_at(0, &self.encode()).map_err(fail("write"))?;
        file.sync_data().map_err(fail("sync"))?;
        files.replace(&temporary, &path).map_err(fail("replace"))
    }

    /// Returns a name in a directory without a control file that neither an interrupted creation nor a replication
    /// key explains.
    pub(crate) fn first_foreign(names: &[String]) -> Option<String> {
        names.iter().find(|name| ![TEMPORARY_NAME, KEY_NAME].contains(&name.as_str())).cloned()
    }

    /// Returns the directory of the log.
    pub(crate) fn log_dir(dir: &Path) -> PathBuf {
        dir.join("wal")
    }

    /// Returns the directory of the LSM levels.
    pub(crate) fn levels_dir(dir: &Path) -> PathBuf {
        dir.join("levels")
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.cluster.to_le_bytes());
        body.extend_from_slice(&self.node.to_le_bytes());
        body.extend_from_slice(&self.term.get().to_le_bytes());
        body.extend_from_slice(&self.consistent_at.get().to_le_bytes());
        let count = u32::try_from(self.histories.len()).expect("histories are counted in opens");
        body.extend_from_slice(&count.to_le_bytes());
        for history in &*self.histories {
            let History { term, id, start, previous_end } = history;
            for word in [term.get(), id.get(), start.get(), previous_end.get()] {
                body.extend_from_slice(&word.to_le_bytes());
            }
        }
        let bytes = frame::encode(MAGIC, FORMAT_VERSION, &body);
        assert!(bytes.len() <= FILE_BYTES_MAX, "C1: a control file of {} bytes is not read again", bytes.len());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, Refused> {
        let (version, mut reader) = frame::decode(MAGIC, FORMAT_VERSION, bytes)?;
        let (cluster, node, term) = (reader.u128()?, reader.u64()?, Term::new(reader.u64()?));
        let consistent_at = if version > 1 { Lsn::new(reader.u64()?) } else { Lsn::ZERO };
        let mut histories = Vec::new();
        for _ in 0..reader.u32()? {
            let (term, id, start) = (Term::new(reader.u64()?), HistoryId::new(reader.u64()?), Lsn::new(reader.u64()?));
            let previous_end = if version > 1 { Lsn::new(reader.u64()?) } else { start };
            histories.push(History { term, id, start, previous_end });
        }
        reader.finish()?;
        Ok(Self { cluster, node, term, consistent_at, histories: HistoryList::of(histories) })
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "the bytes are the test's own")]
mod tests {
    use super::*;

    /// Goal: the file is read as written, and every damaged byte is noticed. Method: it is written, read, and each
    /// bit is flipped.
    #[test]
    fn control_file_round_trips_and_every_flipped_bit_is_refused() {
        let (env, _disk) = Env::simulated(3);
        let dir = Path::new("/db");
        env.files.create_dir_all(dir).unwrap();
        let mut control = Control::draw(&env);
        let (term, id, start, previous_end) = (Term::new(1), HistoryId::new(9), Lsn::new(5000), Lsn::FIRST);
        assert!(control.note_history(History { term, id, start, previous_end }));
        assert!(!control.note_history(History { term, id, start, previous_end }), "it is known");
        control.consistent_at = Lsn::new(6000);
        assert_eq!(Control::read(&env, dir).unwrap(), None);
        control.write(&env, dir).unwrap();
        control.write(&env, dir).unwrap();
        assert_eq!(Control::read(&env, dir).unwrap(), Some(control.clone()));
        let bytes = control.encode();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Control::decode(&bad).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Control::decode(&bytes[..len]).is_err(), "cut to {len} bytes");
        }
    }

    /// Goal: a file of version 1 is read. Method: the test builds one.
    #[test]
    fn control_file_of_version_1_is_read() {
        let mut body = Vec::new();
        body.extend_from_slice(&7_u128.to_le_bytes());
        [8_u64, 3].iter().for_each(|word| body.extend_from_slice(&word.to_le_bytes()));
        body.extend_from_slice(&1_u32.to_le_bytes());
        [3_u64, 9, 5000].iter().for_each(|word| body.extend_from_slice(&word.to_le_bytes()));
        let bytes = frame::encode(MAGIC, 1, &body);
        let (start, term) = (Lsn::new(5000), Term::new(3));
        let histories = vec![History { term, id: HistoryId::new(9), start, previous_end: start }];
        let histories = HistoryList::of(histories);
        let control = Control { cluster: 7, node: 8, term, consistent_at: Lsn::ZERO, histories };
        assert_eq!(Control::decode(&bytes), Ok(control));
    }

    /// Goal: C1: however often a directory starts after a crash, its control file can be read again and stays
    /// below a mebibyte. Method: 40,000 starts that each note a history; the file is written and read at every
    /// thousandth start, and around the number at which an older program could not read it any more (32,766).
    #[test]
    fn control_file_is_readable_after_tens_of_thousands_of_crash_starts() {
        let (env, _disk) = Env::simulated(5);
        let dir = Path::new("/db");
        env.files.create_dir_all(dir).unwrap();
        let mut control = Control::draw(&env);
        for number in 0..40_000_u64 {
            let (term, id, start) = (Term::new(1), HistoryId::new(number), Lsn::new(10_000 + number * 100));
            assert!(control.note_history(History { term, id, start, previous_end: start }));
            if number % 1000 == 0 || (32_760..32_770).contains(&number) {
                control.write(&env, dir).unwrap();
                assert_eq!(Control::read(&env, dir).unwrap(), Some(control.clone()), "after start {number}");
            }
        }
        let bytes = env.files.open(&dir.join(NAME), collie_env::Access::Read).unwrap().len().unwrap();
        assert!(bytes < 1 << 20, "{bytes}");
    }

    /// Goal: C1: a file that an older program wrote and could not read is read. Method: a file of 50,000
    /// histories, 1.6 MB.
    #[test]
    fn control_file_of_a_directory_that_crashed_too_often_is_read() {
        let mut body = Vec::new();
        body.extend_from_slice(&7_u128.to_le_bytes());
        [8_u64, 3, 0].iter().for_each(|word| body.extend_from_slice(&word.to_le_bytes()));
        body.extend_from_slice(&50_000_u32.to_le_bytes());
        for number in 0..50_000_u64 {
            let start = 10_000 + number * 100;
            [3, number, start, start].iter().for_each(|word: &u64| body.extend_from_slice(&word.to_le_bytes()));
        }
        let (env, _disk) = Env::simulated(6);
        let dir = Path::new("/db");
        env.files.create_dir_all(dir).unwrap();
        let file = env.files.create(&dir.join(NAME)).unwrap();
        file.write_at(0, &frame::encode(MAGIC, FORMAT_VERSION, &body)).unwrap();
        let control = Control::read(&env, dir).unwrap().unwrap();
        assert_eq!((control.node, control.term, control.histories.len()), (8, Term::new(3), HISTORIES_MAX));
        assert_eq!(control.histories.last().map(|history| history.id), Some(HistoryId::new(49_999)));
    }
}
