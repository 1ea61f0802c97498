//! `salvage`: reads everything of a damaged log that can still be read, and reports what is missing (`wal.recovery_mode
//! = skip_any_corrupted_records`). It only reads: it changes and opens nothing.
//!
//! The recovery scan decides whether the log is damaged at all, as for an opening. An opening follows the chain of
//! frames and stops at the first that does not join; of a damaged log this takes every frame whose checksum holds and
//! orders the frames by position. A position has one content as long as the log exists (LOG-14), so a frame that is
//! there twice is the same twice.
//!
//! # Invariants
//! - Z1. Every record that is yielded was appended: it comes from a frame whose checksum holds under the salt of its
//!   file, and not from positions that a later LINK left out.
//! - Z2. Records are yielded in the order of their positions, each once; every stretch between the first one and the
//!   durable end that is not yielded is reported as a hole.
//! - Z3. An unfinished flush is trimmed: beyond the durable end reading stops at the first stretch that is missing.
//! - Z4. A record of several pieces with a piece in a hole is lost with it: pieces are not joined across holes.
//! - Z5. Of a log that an opening takes as whole this yields the records that the opening does, and reports no hole.
//!
//! Checked by `tests/salvage.rs` (any frame of a log damaged, any file missing), and by the crash lab, which salvages
//! the states that it opens.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::Lsn;
use collie_env::{Env, FileLock, Files, LockError};

use crate::{
    Record, WalError, append::ring_file::ring_path_of, copies::merged, copies::surveyed, format::BLOCK_BYTES,
    format::decode::Bad, format::decode::HeaderBlock, format::segment_number, options::RECORD_BYTES_LIMIT,
    read::assemble::Assembler, read::frame_reader::FrameReader, read::source::FrameSource, read::window::Window,
    scan::Scan, scan::scan, segment::Span,
};

/// A stretch of the log that does not read back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hole {
    /// Where it begins: everything below was yielded or reported lost.
    pub from: Lsn,
    /// Where reading continues.
    pub to: Lsn,
    /// The file that was being read.
    pub path: PathBuf,
    /// The offset in that file where the bytes stopped making sense.
    pub offset: u64,
    /// The checksum found there.
    pub stored: u32,
    /// The checksum of the bytes found there; equal to `stored` if no frame begins there.
    pub computed: u32,
}

impl fmt::Display for Hole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, path, offset, stored, computed } = self;
        let (bytes, path) = (to.bytes_since(*from), path.display());
        write!(
            f,
            "wal: lost {bytes} bytes from LSN {from} to {to} ({path} offset {offset}): crc {stored:08x} stored, \
             {computed:08x} computed"
        )
    }
}

/// An item that [`Salvage`] yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Salvaged {
    /// A record that can be read.
    Record(Record),
    /// Records that were lost.
    Hole(Hole),
}

/// Frames that follow each other in one file.
#[derive(Clone, Debug)]
struct Run {
    path: Arc<Path>,
    salt: u64,
    offset: u64,
    until: u64,
    start: Lsn,
    end: Lsn,
}

/// The contents of a directory's files.
#[derive(Debug, Default)]
struct Found {
    runs: Vec<Run>,
    /// Positions that were left out, from the end of one incarnation to the beginning of the next: start and end.
    void: Vec<(Lsn, Lsn)>,
    /// The largest position that a frame names as durable.
    durable: Lsn,
}

/// An iterator over what is left of a log, made by [`salvage`] and [`salvage_locked`]. Ends after the first error.
#[derive(Debug)]
pub struct Salvage {
    files: Arc<dyn Files>,
    dir: PathBuf,
    log_id: Option<[u8; 16]>,
    start: Lsn,
    runs: VecDeque<Run>,
    void: Vec<(Lsn, Lsn)>,
    durable: Lsn,
    /// Everything below was yielded, reported lost, or left out.
    position: Lsn,
    /// The run being read, and the one read last.
    reading: Option<FrameReader>,
    last: Option<Run>,
    assembler: Assembler,
    ended: bool,
    /// Held until the iterator is dropped.
    locks: Vec<Box<dyn FileLock>>,
}

/// Reads all that can be read of the log in `dir`, damaged or not, without a lock. For a log that no process has open.
/// Of a log in several directories this yields what `dir` holds.
///
/// # Errors
/// `Io`, also for bytes that the disk refuses to read; `ForeignLog`, `NewerFormat`. Damage is no error.
///
/// # Progress
/// Blocks on reading every file before it returns, twice if the log is damaged, and once more while the iterator runs.
pub fn salvage(env: &Env, dir: &Path) -> Result<Salvage, WalError> {
    read(&env.files, dir, Vec::new())
}

/// Reads like [`salvage`], but the log in `dir` and `copies`, and keeps it from being opened: each frame comes from any
/// directory that has it, and every directory is locked until the [`Salvage`] is dropped, except those that are not
/// writable. It does not matter how many of the directories are there. Writes nothing but the holder's process id into
/// `LOCK`.
///
/// # Errors
/// As [`salvage`]; `Locked` if a process has the log open; `CopiesDiffer` if the directories diverged: pass one of
/// them.
///
/// # Progress
/// Blocks on reading as [`salvage`] does; with copies everything is read once more to compare them.
pub fn salvage_locked(env: &Env, dir: &Path, copies: &[PathBuf]) -> Result<Salvage, WalError> {
    let (mut locks, mut there) = (Vec::new(), Vec::new());
    for dir in std::iter::once(dir).chain(copies.iter().map(PathBuf::as_path)) {
        // A copy out of reach is treated like one that rots.
        if env.files.list(dir).is_err() {
            continue;
        }
        there.push(dir.to_owned());
        match env.files.lock(&dir.join("LOCK")) {
            Ok(lock) => locks.push(lock),
            Err(LockError::Held { pid }) => return Err(WalError::Locked { pid }),
            // Where no file can be made or written no log can be opened either.
            Err(LockError::Io(_)) => {}
        }
    }
    if copies.is_empty() || there.is_empty() {
        return read(&env.files, dir, locks);
    }
    match undamaged(surveyed(&env.files, dir, &there))? {
        Some((files, found)) => Ok(Salvage::of_whole(&files, dir, found, locks)),
        None => by_position(&merged(&env.files, dir, &there)?, dir, locks),
    }
}

fn read(files: &Arc<dyn Files>, dir: &Path, locks: Vec<Box<dyn FileLock>>) -> Result<Salvage, WalError> {
    match undamaged(scan(&**files, dir, None).map(|found| (files.clone(), found)))? {
        Some((files, found)) => Ok(Salvage::of_whole(&files, dir, found, locks)),
        None => by_position(files, dir, locks),
    }
}

/// A scan and the files that it read.
type Scanned = (Arc<dyn Files>, Scan);

/// Returns what an opening would find, if it takes that as whole.
fn undamaged(looked: Result<Scanned, WalError>) -> Result<Option<Scanned>, WalError> {
    match looked {
        _ if mistake!("SALVAGE_PAST_THE_END") => Ok(None),
        Ok(both) => Ok(Some(both).filter(|(_, found)| found.damage.is_none())),
        // An opening stops here. The files are there all the same, and copies that differ only by rot are distinguished
        // from diverged ones once all are merged.
        Err(WalError::WrongName { .. } | WalError::CopiesDiffer { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads what is left of a damaged log: every frame whose checksum holds, by position.
pub(crate) fn by_position(
    files: &Arc<dyn Files>,
    dir: &Path,
    locks: Vec<Box<dyn FileLock>>,
) -> Result<Salvage, WalError> {
    let names = files.list(dir).map_err(|source| WalError::io("list", dir, source))?;
    let (mut found, mut log_id) = (Found::default(), None);
    for path in names.iter().filter(|name| segment_number(name).is_some()).map(|name| dir.join(name)) {
        let mut window = Window::open(&**files, path.clone())?;
        let salt = match window.segment_header()? {
            HeaderBlock::Newer(version) => return Err(WalError::NewerFormat { path, version }),
            HeaderBlock::Segment(header) if *log_id.get_or_insert(header.log_id) != header.log_id => {
                return Err(WalError::ForeignLog { path });
            }
            // The frames have the salt of their header, even if that carries another number.
            HeaderBlock::Segment(header) => Some(header.salt),
            HeaderBlock::Bad(_) => latest_salt(&mut window)?,
        };
        if let Some(salt) = salt {
            found.take_file(&mut window, &Arc::from(path.as_path()), salt)?;
        }
    }
    found.runs.sort_by_key(|run| (run.start, std::cmp::Reverse(run.end)));
    found.void.sort_unstable();
    let position = found.runs.first().map_or(Lsn::FIRST, |run| run.start);
    let Found { runs, void, durable } = found;
    let skipped = void.iter().find(|(_, to)| *to == position);
    let start = skipped.map_or(position, |(from, _)| *from);
    let salvage = Salvage::new(files, dir, log_id, [start, durable], locks);
    Ok(Salvage { runs: runs.into(), void, position, ..salvage })
}

/// Returns the salt of a file without a readable header: that of its newest frame, since older ones may be of an
/// earlier use of the file.
fn latest_salt(window: &mut Window) -> Result<Option<u64>, WalError> {
    let (mut newest, mut at) = (BTreeMap::new(), BLOCK_BYTES);
    while let Some(block) = window.next_begun_block(at)? {
        at = block + BLOCK_BYTES;
        if let Ok(frame) = window.frame_at(block, None)? {
            newest.insert(frame.header.number, frame.header.salt);
            at = frame.next_offset;
        }
    }
    Ok(newest.into_values().next_back())
}

impl Found {
    fn take_file(&mut self, window: &mut Window, path: &Arc<Path>, salt: u64) -> Result<(), WalError> {
        let mut at = BLOCK_BYTES;
        while let Some(block) = window.next_begun_block(at)? {
            at = block + BLOCK_BYTES;
            let Ok(frame) = window.frame_at(block, Some(salt))? else { continue };
            at = frame.next_offset;
            let (start, end) = (frame.header.start, frame.header.end());
            self.durable = self.durable.max(frame.header.durable);
            if let Some(link) = frame.header.link.filter(|link| link.previous_end < start) {
                self.void.push((link.previous_end, start));
            }
            match self.runs.last_mut().filter(|run| run.path == *path && run.until == block && run.end == start) {
                Some(run) => (run.until, run.end) = (at, end),
                None => self.runs.push(Run { path: path.clone(), salt, offset: block, until: at, start, end }),
            }
        }
        Ok(())
    }
}

impl Salvage {
    /// Makes an iterator with nothing to read yet; `start` and `durable` are the log's.
    fn new(
        files: &Arc<dyn Files>,
        dir: &Path,
        log_id: Option<[u8; 16]>,
        [start, durable]: [Lsn; 2],
        locks: Vec<Box<dyn FileLock>>,
    ) -> Self {
        let record_bytes_max = usize::try_from(RECORD_BYTES_LIMIT).unwrap_or(usize::MAX);
        Self {
            files: files.clone(),
            dir: dir.to_owned(),
            log_id,
            start,
            runs: VecDeque::new(),
            void: Vec::new(),
            durable,
            position: start,
            reading: None,
            last: None,
            assembler: Assembler::new(Lsn::ZERO, record_bytes_max),
            ended: false,
            locks,
        }
    }

    /// Reads the chain that an opening would read, to its end (Z5); the scan has left out what is void.
    fn of_whole(files: &Arc<dyn Files>, dir: &Path, found: Scan, locks: Vec<Box<dyn FileLock>>) -> Self {
        let start = found.start();
        let salvage = Self::new(files, dir, found.log_id, [start, found.durable], locks);
        let reading = FrameReader::new(files.clone(), found.spans, start, None);
        Self { reading: Some(reading), ..salvage }
    }

    /// Returns how far the log is known to have been durable.
    pub fn durable(&self) -> Lsn {
        self.durable
    }

    /// Returns where the rest of the log begins: every record from there on is yielded, or a hole reports it lost.
    /// Positions may jump between there and the first record.
    pub fn start(&self) -> Lsn {
        self.start
    }

    /// Returns the path of the shared ring in `ring_dir` that bears this log's name, if there is one: a killed process
    /// left it for the next open. Its records are not yielded.
    pub fn ring(&self, env: &Env, ring_dir: &Path) -> Option<PathBuf> {
        ring_path_of(env, ring_dir, &self.log_id?, &self.dir)
    }

    /// Returns the locks: no process can open the log until they are dropped. [`salvage`] takes none.
    pub fn into_locks(self) -> Vec<Box<dyn FileLock>> {
        self.locks
    }

    /// Skips the positions that a later incarnation left out.
    fn skip_void(&mut self) {
        for (from, to) in &self.void {
            if (*from..*to).contains(&self.position) {
                self.position = *to;
                self.assembler.gap();
            }
        }
    }

    /// Continues with the next run, or returns the hole before it; sets `ended` at the end.
    fn go_on(&mut self) -> Result<Option<Hole>, WalError> {
        self.skip_void();
        while self.runs.front().is_some_and(|run| run.end <= self.position) {
            // A run that ends here is where reading stands, even if it has no record.
            let passed = self.runs.pop_front().filter(|run| run.end == self.position || self.last.is_none());
            self.last = passed.or(self.last.take());
        }
        let next = self.runs.front().map(|run| run.start);
        if next.is_none_or(|next| next > self.position) {
            // Z3: beyond the durable end a missing stretch is the end.
            if self.position >= self.durable {
                self.ended = true;
                return Ok(None);
            }
            let void = self.void.iter().map(|(from, _)| *from).find(|from| *from > self.position);
            let to = next.into_iter().chain(void).min().unwrap_or(self.durable);
            return self.declare(to).map(Some);
        }
        let Some(run) = self.runs.pop_front() else { return Ok(None) };
        let path = run.path.to_path_buf();
        let span = Span {
            path,
            salt: run.salt,
            segment_bytes: run.until,
            first: run.start,
            until: Some(run.until),
            broken: false,
        };
        let mut reading = FrameReader::new(self.files.clone(), vec![span], run.start, None);
        reading.go_on_at(&run.path, run.offset, run.start)?;
        (self.reading, self.last) = (Some(reading), Some(run));
        Ok(None)
    }

    /// Reports everything from the position to `to` as lost.
    fn declare(&mut self, to: Lsn) -> Result<Hole, WalError> {
        // Z4: no piece is joined across the hole.
        self.assembler.gap();
        let from = std::mem::replace(&mut self.position, to);
        let behind = self.last.as_ref().map(|run| (&run.path, run.until, run.salt));
        // The next run begins inside another file, so the front of that file is what does not read.
        let elsewhere = self.runs.front().filter(|next| next.offset > BLOCK_BYTES);
        let elsewhere = elsewhere.filter(|next| self.last.as_ref().is_none_or(|last| last.path != next.path));
        let front = elsewhere.map(|next| (&next.path, BLOCK_BYTES, next.salt));
        let mut bad = Bad { stored: 0, computed: 0 };
        let (path, offset) = match front.or(behind) {
            Some((path, offset, salt)) => {
                let mut window = Window::open(&*self.files, path.to_path_buf())?;
                bad = window.frame_at(offset, Some(salt))?.err().unwrap_or(bad);
                (path.to_path_buf(), offset)
            }
            None => (PathBuf::new(), 0),
        };
        Ok(Hole { from, to, path, offset, stored: bad.stored, computed: bad.computed })
    }

    fn step(&mut self) -> Result<Option<Hole>, WalError> {
        let Some(reading) = &mut self.reading else { return self.go_on() };
        match reading.next_frame(Lsn::MAX)? {
            Some((frame, place)) => {
                self.position = self.position.max(frame.header.end());
                self.assembler.take(&frame, &place, Lsn::MAX)?;
            }
            None => self.reading = None,
        }
        Ok(None)
    }
}

impl Iterator for Salvage {
    type Item = Result<Salvaged, WalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.assembler.next() {
                let void = self.void.iter().any(|(from, to)| (*from..*to).contains(&record.lsn));
                // Z1: a later LINK left this position out.
                if void {
                    continue;
                }
                return Some(Ok(Salvaged::Record(record)));
            }
            if self.ended {
                return None;
            }
            match self.step() {
                Ok(None) => {}
                Ok(Some(hole)) => return Some(Ok(Salvaged::Hole(hole))),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
