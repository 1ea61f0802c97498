//! `salvage`: reads everything of a damaged log that still reads, and says what is missing
//! (`wal.recovery_mode = skip_any_corrupted_records`). Reads only; changes and opens nothing.
//!
//! Whether the log is damaged at all is the survey's word, as for an opening. If it is, then where opening follows the chain
//! of frames and stops at the first that does not join, this takes every frame whose checksum holds and orders them by
//! position: a position has one content for the life of a log (LOG-14), so a frame that is there twice is the same
//! twice.
//!
//! # Invariants
//! - Z1. What is yielded was appended: every record comes from a frame whose checksum holds under the salt of its file, and
//!   not from positions that a later LINK says were left out.
//! - Z2. Records come in the order of their positions, each once; every stretch between the first and what was durable
//!   that is not yielded is declared as a hole.
//! - Z3. An unfinished flush is trimmed: beyond the durable end reading stops at the first stretch that is missing.
//! - Z4. A record of several pieces with a piece in a hole is lost with it: pieces are not joined across holes.
//! - Z5. Of a log that an opening takes as whole this yields what that opening does, and declares no hole.
//!
//! Checked by `salvage_tests`: any frame of a log damaged, any file gone; and by the crash lab, which salvages states that it
//! opens.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::Lsn;
use collie_env::{Env, FileLock, Files, LockError};

use crate::{
    Record, WalError,
    assemble::Assembler,
    copies::{merged, surveyed},
    decode::{Bad, HeaderBlock},
    format::{BLOCK_BYTES, segment_number},
    frame_reader::FrameReader,
    options::RECORD_BYTES_LIMIT,
    ring_file::ring_path_of,
    segments::Span,
    source::FrameSource,
    survey::{Survey, survey},
    window::Window,
};

/// A stretch of the log that does not read back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hole {
    /// Where it begins: everything below was yielded or declared lost.
    pub from: Lsn,
    /// Where reading goes on.
    pub to: Lsn,
    /// The file that was being read.
    pub path: PathBuf,
    /// Where in that file the bytes stopped making sense.
    pub offset: u64,
    /// The checksum found there.
    pub stored: u32,
    /// The checksum of the bytes found there; the same when no frame begins there.
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

/// What [`Salvage`] yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Salvaged {
    /// A record that reads.
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

/// What the files of a directory hold.
#[derive(Debug, Default)]
struct Found {
    runs: Vec<Run>,
    /// Positions that were left out, from the end of one life to the beginning of the next: start and end.
    void: Vec<(Lsn, Lsn)>,
    /// The largest position that a frame names as durable.
    durable: Lsn,
}

/// Iterates over what is left of a log; made by [`salvage`] and [`salvage_locked`]. Ends after the first error.
#[derive(Debug)]
pub struct Salvage {
    files: Arc<dyn Files>,
    dir: PathBuf,
    log_id: Option<[u8; 16]>,
    start: Lsn,
    runs: VecDeque<Run>,
    void: Vec<(Lsn, Lsn)>,
    durable: Lsn,
    /// Everything below was yielded, declared lost, or left out.
    position: Lsn,
    /// The run being read, and the one read last.
    reading: Option<FrameReader>,
    last: Option<Run>,
    assembler: Assembler,
    ended: bool,
    /// Held as long as this is read.
    locks: Vec<Box<dyn FileLock>>,
}

/// Reads all that is readable of the log in `dir`, damaged or not, without a lock. For a log that nobody has open. Of a log
/// in several directories this is what that one of them holds.
///
/// # Errors
/// `Io`, also for bytes that the disk refuses to read; `ForeignLog`, `NewerFormat`. Damage is what this is for.
///
/// # Progress
/// Blocks on reading every file before it returns, twice if the log is damaged, and once more while the iterator runs.
pub fn salvage(env: &Env, dir: &Path) -> Result<Salvage, WalError> {
    read(&env.files, dir, Vec::new())
}

/// As [`salvage`], of a log in `dir` and `copies` that nobody may open meanwhile: each frame comes from whichever directory
/// has it, and every directory is locked until the [`Salvage`] goes, unless nobody may write there. How many of the
/// directories are there does not matter. Writes nothing but the holder's process id into `LOCK`.
///
/// # Errors
/// As [`salvage`]; `Locked` when somebody has the log open; `CopiesDiffer` when the directories went separate ways: give
/// one of them.
///
/// # Progress
/// Blocks on reading as [`salvage`] does; with copies everything is read once more to compare them.
pub fn salvage_locked(env: &Env, dir: &Path, copies: &[PathBuf]) -> Result<Salvage, WalError> {
    let (mut locks, mut there) = (Vec::new(), Vec::new());
    for dir in std::iter::once(dir).chain(copies.iter().map(PathBuf::as_path)) {
        // A copy out of reach is as good as one that rots.
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
    match undamaged(survey(&**files, dir, None).map(|found| (files.clone(), found)))? {
        Some((files, found)) => Ok(Salvage::of_whole(&files, dir, found, locks)),
        None => by_position(files, dir, locks),
    }
}

/// A survey and the files that it is of.
type Surveyed = (Arc<dyn Files>, Survey);

/// Returns what an opening finds, if it takes that as whole.
fn undamaged(looked: Result<Surveyed, WalError>) -> Result<Option<Surveyed>, WalError> {
    match looked {
        _ if mistake!("SALVAGE_PAST_THE_END") => Ok(None),
        Ok(both) => Ok(Some(both).filter(|(_, found)| found.damage.is_none())),
        // An opening goes no further here. The files are there all the same, and copies that only rot makes differ are
        // told from those that went separate ways once all are merged.
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
            // The salt of a header that carries another number is its frames' salt all the same.
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

/// Returns the salt of a file without a readable header: that of its newest frame, since an earlier use of the file left
/// older ones.
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
    /// Has nothing to read yet; `start` and `durable` are the log's.
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

    /// Reads the chain that an opening would, to its end (Z5): the survey has left out what is void.
    fn of_whole(files: &Arc<dyn Files>, dir: &Path, found: Survey, locks: Vec<Box<dyn FileLock>>) -> Self {
        let start = found.start();
        let salvage = Self::new(files, dir, found.log_id, [start, found.durable], locks);
        let reading = FrameReader::new(files.clone(), found.spans, start, None);
        Self { reading: Some(reading), ..salvage }
    }

    /// Returns how far the log is known to have been durable.
    pub fn durable(&self) -> Lsn {
        self.durable
    }

    /// Returns where what is left begins: every record from there on is yielded, or a hole says that it is lost. Positions
    /// may jump from there to the first record.
    pub fn start(&self) -> Lsn {
        self.start
    }

    /// Returns the shared ring in `ring_dir` that bears this log's name, if there is one: a killed process left it for the
    /// next open. What is in it is not yielded.
    pub fn ring(&self, env: &Env, ring_dir: &Path) -> Option<PathBuf> {
        ring_path_of(env, ring_dir, &self.log_id?, &self.dir)
    }

    /// Gives the locks out: nobody opens the log until they are dropped. None from [`salvage`].
    pub fn into_locks(self) -> Vec<Box<dyn FileLock>> {
        self.locks
    }

    /// Leaves out what a later life left out.
    fn skip_void(&mut self) {
        for (from, to) in &self.void {
            if (*from..*to).contains(&self.position) {
                self.position = *to;
                self.assembler.gap();
            }
        }
    }

    /// Goes on to the next run, or to a hole before it; `None` at the end.
    fn go_on(&mut self) -> Result<Option<Hole>, WalError> {
        self.skip_void();
        while self.runs.front().is_some_and(|run| run.end <= self.position) {
            // One that ends here is where reading stands, also without a record of its own.
            let passed = self.runs.pop_front().filter(|run| run.end == self.position || self.last.is_none());
            self.last = passed.or(self.last.take());
        }
        let next = self.runs.front().map(|run| run.start);
        if next.is_none_or(|next| next > self.position) {
            // Z3.
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

    /// Declares everything from the position to `to` lost.
    fn declare(&mut self, to: Lsn) -> Result<Hole, WalError> {
        // Z4.
        self.assembler.gap();
        let from = std::mem::replace(&mut self.position, to);
        let behind = self.last.as_ref().map(|run| (&run.path, run.until, run.salt));
        // What comes next begins inside another file: its front is what does not read.
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
                // Z1.
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
