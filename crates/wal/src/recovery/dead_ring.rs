//! `DeadRing`: the shared ring that a dead process of this log left: whether it counts, up to where it was complete,
//! and the bytes that the files do not have.
//!
//! The ring is only read, by copy: its bytes are as untrusted as those of a file. Because the directory is locked, no
//! process writes to it any more; the process id in it is only for people.
//!
//! # Invariants
//! - X1. A ring counts only if log, directory, boot and incarnation are those of the log that is opened: its positions
//!   then continue that log's frames. The incarnation is that of the last frame that counts, not of one in a rewrite
//!   that was cut short: the old ring counts until the frame of the new incarnation does.
//! - X2. `end` is the position that a scan by a live thread would return now (`docs/design/commit-protocol.md` section
//!   3): it is at or above every acknowledged position, and every record below it is whole, in the ring or in a staging
//!   buffer.
//! - X3. No content of a ring panics or sizes an allocation beyond the bytes of the ring itself.
//!
//! Checked by `tests/ring_file.rs`: every step of two workers, every kind of ring that does not count, flipped bytes.
#![deny(clippy::as_conversions, clippy::indexing_slicing)]

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::Lsn;
use collie_env::{Env, File};

use crate::{
    Protocol, WalError,
    append::ring_file::{Header, LINE, Layout, Owner, WordAt, ring_path},
    append::{Colour, Flag, POSITION_MAX, is_closed},
    format::BLOCK,
    format::decode::{Bad, whole_records},
};

/// A ring that counts.
#[derive(Debug)]
pub(crate) struct DeadRing {
    file: Arc<dyn File>,
    path: PathBuf,
    layout: Layout,
    /// Every byte below was on disk.
    pub(crate) durable: Lsn,
    /// Every record below is whole.
    pub(crate) end: Lsn,
    /// Slots whose record is in their staging buffer, with the end of the record.
    staged: Vec<(usize, Lsn)>,
}

/// The result of a search for the ring of a log.
#[derive(Debug)]
pub(crate) enum Found {
    /// There is no such file.
    Nothing,
    /// A ring that does not count; the line has the reason.
    Ignored(String),
    /// A ring that counts.
    Ring(DeadRing),
}

/// The reason why the content of a ring that counts cannot be read.
#[derive(Debug)]
struct Unreadable {
    /// Offset in the file.
    offset: usize,
}

impl DeadRing {
    /// Looks for the ring of the log `log_id` in `dir`; `incarnation` is that of the last frame that counts.
    ///
    /// # Errors
    /// `Damaged` if the ring counts but its words are impossible. `Io` if it counts and cannot be read.
    pub(crate) fn find(
        env: &Env,
        dir: &Path,
        ring_dir: &Path,
        log_id: [u8; 16],
        incarnation: u64,
    ) -> Result<Found, WalError> {
        let Ok(directory_id) = env.memory.directory_id(dir) else { return Ok(Found::Nothing) };
        let path = ring_path(ring_dir, &log_id, directory_id);
        let ignored = |why: &str| Ok(Found::Ignored(format!("wal: ignored the shared ring {}: {why}", path.display())));
        let file = match env.memory.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return ignored(&error.to_string()),
        };
        let boot_id = match env.memory.boot_id() {
            Ok(id) => id,
            Err(error) => return ignored(&format!("the number of this boot cannot be read: {error}")),
        };
        let io = |source| WalError::io("read the shared ring", &path, source);
        let mut block = vec![0; BLOCK];
        let count = file.read_at(0, &mut block).map_err(io)?;
        let header = match Header::decode(block.get(..count).unwrap_or(&[])) {
            Ok(header) => header,
            Err(why) => return ignored(why),
        };
        let Owner { log_id: of_log, incarnation: of_life, boot_id: of_boot, directory_id: of_directory } = header.owner;
        if of_boot != boot_id {
            return ignored("it is of another boot of this machine");
        }
        if of_log != log_id || of_directory != directory_id {
            return ignored("it is of another log");
        }
        if of_life != incarnation {
            return ignored(&format!("it is of incarnation {of_life}, the log is at {incarnation}"));
        }
        let file_bytes = file.len().map_err(io)?;
        if file_bytes != header.layout.file_bytes() {
            return ignored(&format!("it has {file_bytes} bytes instead of {}", header.layout.file_bytes()));
        }
        let mut ring = Self {
            file,
            path: path.clone(),
            layout: header.layout,
            durable: Lsn::ZERO,
            end: Lsn::ZERO,
            staged: vec![],
        };
        match ring.scan(header.protocol).map_err(io)? {
            Ok(()) => Ok(Found::Ring(ring)),
            Err(bad) => Err(ring.damaged(Lsn::ZERO, &bad)),
        }
    }

    /// Returns whether the ring behind `header` is whole and all its records are on disk: then its log does not need
    /// it.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn is_on_disk(file: &Arc<dyn File>, path: &Path, header: &Header) -> io::Result<bool> {
        if file.len()? != header.layout.file_bytes() {
            return Ok(false);
        }
        let (durable, end) = (Lsn::ZERO, Lsn::ZERO);
        let mut ring =
            Self { file: file.clone(), path: path.to_owned(), layout: header.layout, durable, end, staged: vec![] };
        Ok(ring.scan(header.protocol)?.is_ok() && ring.end == ring.durable)
    }

    /// Returns the path of its file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn damaged(&self, lsn: Lsn, bad: &Unreadable) -> WalError {
        let Bad { stored, computed } = Bad { stored: 0, computed: 0 };
        let offset = u64::try_from(bad.offset).unwrap_or(u64::MAX);
        WalError::Damaged { lsn, path: self.path.clone(), offset, stored, computed, durable: self.end }
    }

    fn read(&self, at: usize, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let count = self.file.read_at(u64::try_from(at).unwrap_or(u64::MAX), &mut bytes)?;
        if count < len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
    }

    fn word(&self, at: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        let count = self.file.read_at(u64::try_from(at).unwrap_or(u64::MAX), &mut bytes)?;
        if count < bytes.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(u64::from_le_bytes(bytes)) }
    }

    /// Runs one scan over the words of the dead process (X2).
    fn scan(&mut self, protocol: Protocol) -> io::Result<Result<(), Unreadable>> {
        let position = |raw: u64| (Lsn::FIRST.get()..=POSITION_MAX).contains(&raw).then(|| Lsn::new(raw));
        macro_rules! expect {
            ($at:expr, $value:expr) => {
                match $value {
                    Some(value) => value,
                    None => return Ok(Err(Unreadable { offset: $at })),
                }
            };
        }
        let at = |word: WordAt| word.offset();
        let boundary = expect!(at(WordAt::Boundary), position(self.word(at(WordAt::Boundary))?));
        self.durable = expect!(at(WordAt::Durable), position(self.word(at(WordAt::Durable))?));
        self.end = boundary;
        if protocol != Protocol::Mutex {
            let next = self.word(at(WordAt::Next))?;
            let next = if is_closed(next) { self.word(at(WordAt::Last))? } else { next };
            let limit = expect!(at(WordAt::Next), position(next));
            let used = usize::try_from(self.word(at(WordAt::Used))?).ok();
            let used = expect!(at(WordAt::Used), used.filter(|used| *used <= self.layout.slots));
            let mut complete = Lsn::MAX;
            for index in 0..used {
                let flag_at = self.layout.flag_at(index);
                let flag = Flag::from_raw(self.word(flag_at)?);
                let colour = expect!(flag_at, flag.checked_colour());
                let lsn = flag.lsn();
                expect!(flag_at, (lsn.get() <= POSITION_MAX).then_some(()));
                complete = complete.min(if colour == Colour::Black { lsn } else { limit.max(lsn) });
                if colour == Colour::Staged {
                    self.staged.push((index, lsn));
                }
            }
            self.end = boundary.max(if used == 0 { limit } else { complete });
        }
        let most = self.layout.ring_bytes + self.layout.slots * self.layout.staging_bytes;
        let held = usize::try_from(self.end.bytes_since(self.durable)).ok().filter(|held| *held <= most);
        expect!(at(WordAt::Durable), held.filter(|_| self.durable <= boundary));
        Ok(Ok(()))
    }

    /// Returns the records from `from`, a record boundary at or above `durable`, to `end`.
    ///
    /// # Errors
    /// `Damaged` if the bytes are not whole records; `Io`.
    pub(crate) fn records_from(&self, from: Lsn) -> Result<Vec<u8>, WalError> {
        let read = self.bytes_from(from).map_err(|source| WalError::io("read the shared ring", &self.path, source))?;
        let bytes = read.map_err(|bad| self.damaged(from, &bad))?;
        match whole_records(&bytes) {
            Some(whole) if whole == bytes.len() => Ok(bytes),
            whole => {
                let lsn = from.plus(u64::try_from(whole.unwrap_or(0)).unwrap_or(0));
                Err(self.damaged(lsn, &Unreadable { offset: self.ring_offset(lsn) }))
            }
        }
    }

    /// Returns the offset in the file of the byte at `lsn`, if the ring holds it.
    fn ring_offset(&self, lsn: Lsn) -> usize {
        let mask = u64::try_from(self.layout.ring_bytes).unwrap_or(1) - 1;
        self.layout.ring_at() + usize::try_from(lsn.get() & mask).unwrap_or(0)
    }

    fn bytes_from(&self, from: Lsn) -> io::Result<Result<Vec<u8>, Unreadable>> {
        let mut staged = Vec::new();
        for (index, end) in self.staged.iter().copied().filter(|(_, end)| *end > from && *end <= self.end) {
            let at = self.layout.staging_at(index);
            let len = self.word(at)?;
            let start = end.get().checked_sub(len).map(Lsn::new).filter(|start| *start >= from);
            let fits = usize::try_from(len).ok().filter(|len| *len <= self.layout.staging_bytes);
            let (Some(start), Some(len)) = (start, fits) else { return Ok(Err(Unreadable { offset: at })) };
            staged.push((start, end, self.read(at + LINE, len)?));
        }
        staged.sort_unstable_by_key(|(start, _, _)| *start);
        let (mut bytes, mut at) = (Vec::new(), from);
        for (start, end, record) in staged {
            if start < at {
                return Ok(Err(Unreadable { offset: self.ring_offset(start) }));
            }
            if let Err(bad) = self.take_from_ring(at, start, &mut bytes)? {
                return Ok(Err(bad));
            }
            bytes.extend_from_slice(&record);
            at = end;
        }
        Ok(self.take_from_ring(at, self.end, &mut bytes)?.map(|()| bytes))
    }

    /// Appends the bytes that the ring holds from `from` to `to`.
    fn take_from_ring(&self, from: Lsn, to: Lsn, bytes: &mut Vec<u8>) -> io::Result<Result<(), Unreadable>> {
        let held = self.durable.plus(u64::try_from(self.layout.ring_bytes).unwrap_or(u64::MAX >> 1));
        let at = self.ring_offset(from);
        if from < to && (from < self.durable || to > held) {
            return Ok(Err(Unreadable { offset: at }));
        }
        let len = usize::try_from(to.bytes_since(from)).unwrap_or(usize::MAX);
        let first = len.min(self.layout.total_bytes() - at);
        bytes.extend(self.read(at, first)?);
        bytes.extend(self.read(self.layout.ring_at(), len - first)?);
        Ok(Ok(()))
    }
}
