//! `Truncation`: cuts the end off a closed log, at an operator's request.
//!
//! The log is locked and scanned, the records to remove are counted, the files that hold them are copied aside, and the
//! cut is made by one new file that says where the log continues. This also works on a damaged log, at or below the
//! damage.
//!
//! # The new file
//! A header, then frames whose LINK has reason TRUNCATE: the records below the cut that nothing else proves durable
//! (those of the frame that holds the cut, or all above the last known durable position), then an empty frame at the
//! first position of the next incarnation, then another one that names that position as durable. The file is written
//! whole under a temporary name, synced, and renamed.
//!
//! # Invariants
//! - T1. The rename is the cut: before it the log is as it was, after it the log ends at the cut. Both outcomes of a
//!   crash are whole logs.
//! - T2. Every step may be repeated: a repeated cut finds either the old log, or nothing above the cut, and then only
//!   removes what an interrupted one left.
//! - T3. No position is used twice (LOG-14): the next incarnation starts above all positions that were or may have been
//!   handed out.
//! - T4. No byte of an existing log file is written; the files behind the cut are removed after it is durable.
//! - T5. If the new file is lost to rot, that is damage, and the old log does not silently return: the file's last
//!   frame names a durable position above every earlier one.
//!
//! Checked by `tests/truncate.rs`: every boundary of random logs, a crash and a fault at every call, every flipped bit.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::Lsn;
use collie_env::{Access, Env, File, FileLock, LockError};

use crate::error::CutRefusal;
use crate::{
    WalError, format::BLOCK_BYTES, format::CopyCounts, format::FrameHeader, format::HEADER, format::KIND_DATA,
    format::KIND_LAST, format::KIND_UNLOGGED, format::LINK_HEADER, format::Link, format::REASON_TRUNCATE,
    format::SegmentHeader, format::decode::whole_records, format::segment_name, format::segment_number,
    options::OPEN_LSN_LIMIT, read::source::Frame, read::walk, scan::Scan, scan::scan,
};

/// Payload of a rewritten frame: the largest `wal.frame_size`, so any record fits.
const FRAME_BYTES: usize = 2 << 20;
/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// The records that a cut removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// Readable records that are removed; a long one counts once.
    pub records: u64,
    /// Bytes of the log stream that they occupy.
    pub stream_bytes: u64,
    /// Where the log ends now (or where its damage begins).
    pub end: Lsn,
    /// Whether files beyond that hold frames that cannot be read in order, because the log is damaged.
    pub unreadable: bool,
}

/// The result of a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Truncated {
    /// Where the log ends now.
    pub lsn: Lsn,
    /// The first position of its next incarnation; those in between are not used.
    pub next: Lsn,
    /// The removed records.
    pub removed: Removed,
    /// The directory into which the files that held them were copied; `None` without a backup or if nothing was
    /// removed.
    pub backup: Option<PathBuf>,
}

/// The options of a cut.
#[derive(Clone, Copy, Debug)]
pub struct TruncateOptions {
    /// Whether the removed records are copied aside first. Default true.
    pub backup: bool,
    /// The lowest position that may be cut at: the caller's checkpoint needs everything below. Default zero: any.
    pub checkpoint: Lsn,
}

impl Default for TruncateOptions {
    fn default() -> Self {
        Self { backup: true, checkpoint: Lsn::ZERO }
    }
}

/// Cuts the log in `dir` at `lsn`, a record boundary: removes the records that start at or above it, keeps the others.
///
/// The log must be closed (or have crashed) and is locked during the cut. The next open treats it as one that was not
/// closed: it skips positions and appends `Options::first_record`. A log that has nothing above `lsn` is left as it is.
///
/// # Errors
/// `Locked` if a process has it open; `Cut` if it cannot be cut there; `ForeignLog`, `NewerFormat`; `Io`. After `Io`
/// the log is either as it was or cut; calling again finishes.
///
/// # Durability
/// The cut, and the copy before it, survive a power cut once this returns.
///
/// # Progress
/// Blocks on reading the whole log once, and the files with removed records once more for the copy; on writing and
/// syncing the copy and one file.
pub fn truncate_at(env: &Env, dir: &Path, lsn: Lsn, options: TruncateOptions) -> Result<Truncated, WalError> {
    let truncation = Truncation::plan(env, dir, lsn, options.checkpoint)?;
    let backup = if options.backup { truncation.back_up()? } else { None };
    Ok(Truncated { backup, ..truncation.cut()? })
}

/// Ends the closed log in `dir` where it ends, as if it had been cut there: its last frame proves that its records are
/// durable, and it opens on its own. Returns where it starts and ends.
///
/// # Errors
/// Those of [`truncate_at`]; the log's damage.
pub(crate) fn seal(env: &Env, dir: &Path) -> Result<(Lsn, Lsn), WalError> {
    let truncation = Truncation::plan_at(env, dir, None, Lsn::ZERO)?;
    truncation.write_new_end()?;
    Ok((truncation.found.start(), truncation.lsn))
}

/// A cut that can be made: [`truncate_at`] in steps, so that a tool can first show what would be removed. Holds
/// the log's lock until it is dropped.
#[derive(Debug)]
pub struct Truncation {
    env: Env,
    dir: PathBuf,
    lsn: Lsn,
    found: Scan,
    removed: Removed,
    anchor: Anchor,
    /// The records from the anchor's end to the cut, and where they begin: there, or behind a jump of positions.
    rewrite: Vec<u8>,
    rewrite_from: Lsn,
    next: Lsn,
    _lock: Box<dyn FileLock>,
}

/// The frame that the new file continues from.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    span: usize,
    end: Lsn,
    crc: u32,
}

impl Truncation {
    /// Locks the log in `dir`, reads it and checks that it can be cut at `lsn`. Changes nothing.
    ///
    /// # Errors
    /// As [`truncate_at`].
    ///
    /// # Progress
    /// Blocks on reading the whole log.
    pub fn plan(env: &Env, dir: &Path, lsn: Lsn, checkpoint: Lsn) -> Result<Self, WalError> {
        Self::plan_at(env, dir, Some(lsn), checkpoint)
    }

    /// Does the same as [`Truncation::plan`]; without a position it plans for the end of the log, which must not be
    /// damaged then.
    fn plan_at(env: &Env, dir: &Path, at: Option<Lsn>, checkpoint: Lsn) -> Result<Self, WalError> {
        let names = env.files.list(dir).map_err(|source| WalError::io("list", dir, source))?;
        if !names.iter().any(|name| segment_number(name).is_some()) {
            return Err(WalError::NoLog { path: dir.to_owned() });
        }
        let lock_path = dir.join("LOCK");
        let lock = env.files.lock(&lock_path).map_err(|error| match error {
            LockError::Held { pid } => WalError::Locked { pid },
            LockError::Io(source) => WalError::io("lock", &lock_path, source),
        })?;
        let found = scan(&*env.files, dir, None)?;
        if let Some(error) = found.damage_error().filter(|_| at.is_none()) {
            return Err(error);
        }
        let lsn = at.unwrap_or(found.end);
        let refuse = |why| Err(WalError::Cut { lsn, why });
        if lsn < checkpoint {
            return refuse(CutRefusal::BelowCheckpoint { checkpoint });
        }
        if lsn > found.end {
            return refuse(CutRefusal::BeyondEnd { end: found.end });
        }
        let next = found.end.max(found.end_max).plus(found.skip);
        if next.get() >= OPEN_LSN_LIMIT {
            return Err(WalError::options(format!(
                "log positions are used up at {next}: dump and load into a new log"
            )));
        }
        let mut search = Search::new(lsn, &found);
        walk::frames(&*env.files, &found.spans, found.durable, |span, frame| {
            search.visit(span, frame);
            ControlFlow::Continue(())
        })?;
        let Search { anchor, rewrite, rewrite_from, removed, below, above, lowest, .. } = search;
        let Some(lowest) = lowest else {
            return Err(found.damage_error().unwrap_or_else(|| WalError::NoLog { path: dir.to_owned() }));
        };
        let Some(anchor) = anchor else { return refuse(CutRefusal::NothingLeft { lowest }) };
        if below != lsn {
            return refuse(CutRefusal::NotABoundary { below, above: above.unwrap_or(found.end) });
        }
        let (env, dir) = (env.clone(), dir.to_owned());
        Ok(Self { env, dir, lsn, found, removed, anchor, rewrite, rewrite_from, next, _lock: lock })
    }

    /// Returns what would be removed.
    pub fn removed(&self) -> Removed {
        self.removed
    }

    /// Returns whether there is nothing to cut: the log is whole and has no record above.
    pub fn is_done(&self) -> bool {
        self.removed.records == 0 && self.removed.stream_bytes == 0 && !self.removed.unreadable
            // Without such records only a torn tail or damage makes a log worth cutting.
            && self.found.torn_bytes == 0 && self.found.damage.is_none()
    }

    /// Returns the files that hold records to remove, the one with the cut first.
    fn files(&self) -> Vec<PathBuf> {
        let behind = self.found.spans[self.anchor.span..].iter().map(|span| span.path.clone());
        let lost = self.found.leftovers.iter().filter(|file| file.lost_frames).map(|file| file.path.clone());
        behind.chain(lost).collect()
    }

    /// Copies every file that holds something to remove into a new directory inside the log's, and returns the
    /// directory; `None` if nothing is to be removed. The copy can be read like a log.
    ///
    /// # Errors
    /// `Io`: the log is unchanged, and the copy that failed is removed if possible; those made before it stay.
    ///
    /// # Durability
    /// The copy survives a power cut once this returns.
    ///
    /// # Progress
    /// Blocks on copying the files that hold what is to be removed, and on syncing the copies.
    pub fn back_up(&self) -> Result<Option<PathBuf>, WalError> {
        let name = format!("cut-at-{:016X}-incarnation-{}", self.lsn.get(), self.found.incarnation);
        let target_dir = self.dir.join(name);
        Ok(self.back_up_to(&target_dir)?.then_some(target_dir))
    }

    /// Does the same as [`Truncation::back_up`] into `target_dir`, whose parent exists; returns whether anything was
    /// copied.
    ///
    /// # Errors
    /// As [`Truncation::back_up`].
    ///
    /// # Durability
    /// The copy survives a power cut once this returns.
    ///
    /// # Progress
    /// Blocks on copying the files that hold what is to be removed, and on syncing the copies.
    pub fn back_up_to(&self, target_dir: &Path) -> Result<bool, WalError> {
        if self.is_done() {
            return Ok(false);
        }
        let files = &*self.env.files;
        files.create_dir_all(target_dir).map_err(|source| WalError::io("create", target_dir, source))?;
        for path in self.files() {
            let target = target_dir.join(path.file_name().unwrap_or_default());
            // Left by an interrupted try; usually there is none.
            let _absent = files.remove(&target);
            if let Err(source) = copy_sparse(&self.env, &path, &target) {
                let _best_effort = files.remove(&target);
                return Err(WalError::io("copy aside", path, source));
            }
        }
        for dir in [Some(target_dir), target_dir.parent()].into_iter().flatten() {
            files.sync_dir(dir).map_err(|source| WalError::io("sync", dir, source))?;
        }
        Ok(true)
    }

    /// Makes the cut, then removes the files that lie behind it.
    ///
    /// # Errors
    /// `Io`: the log is either as it was or cut; cutting again finishes.
    ///
    /// # Durability
    /// As [`truncate_at`].
    ///
    /// # Progress
    /// Blocks on writing and syncing one file, and on removing those behind the cut.
    pub fn cut(self) -> Result<Truncated, WalError> {
        let done = self.is_done();
        let behind: Vec<PathBuf> = if done {
            // An interrupted cut, or a rewrite at an open, may have left files of which nothing counts.
            let void = self.found.spans.iter().filter(|span| span.until == Some(BLOCK_BYTES));
            void.map(|span| span.path.clone()).collect()
        } else {
            // T4: no file is removed before the cut is durable.
            self.write_new_end()?;
            // The file with the cut keeps the records before it.
            self.files().into_iter().skip(1).collect()
        };
        for path in behind.iter().rev() {
            self.env.files.remove(path).map_err(|source| WalError::io("remove", path, source))?;
        }
        if !behind.is_empty() {
            self.env.files.sync_dir(&self.dir).map_err(|source| WalError::io("sync", &self.dir, source))?;
        }
        let next = if done { self.found.end } else { self.next };
        Ok(Truncated { lsn: self.lsn, next, removed: self.removed, backup: None })
    }

    /// Writes the new file under a temporary name and renames it (T1).
    fn write_new_end(&self) -> Result<(), WalError> {
        let number = self.found.segment_number_max + 1;
        let name = segment_name(number);
        let (path, temporary) = (self.dir.join(&name), self.dir.join(format!("{name}.tmp")));
        let files = &*self.env.files;
        // Left by an interrupted try; usually there is none.
        let _absent = files.remove(&temporary);
        let write = || -> std::io::Result<()> {
            let file = files.create(&temporary)?;
            self.fill(&file, number)?;
            files.replace(&temporary, &path)
        };
        write().map_err(|source| {
            let _best_effort = files.remove(&temporary);
            WalError::io("write", path, source)
        })
    }

    fn fill(&self, file: &Arc<dyn File>, number: u64) -> std::io::Result<()> {
        let (log_id, salt) = (self.found.log_id.unwrap_or_default(), self.env.random.u64());
        let mut frames = Frames {
            bytes: vec![0; usize::try_from(BLOCK_BYTES).expect("4096")],
            salt,
            number: self.found.frame_number_max,
            crc: self.anchor.crc,
        };
        let link = |previous_end| {
            let (incarnation, skip) = (self.found.incarnation + 1, self.found.skip);
            Some(Link { incarnation, previous_end, skip, reason: REASON_TRUNCATE, copies: CopyCounts::ONE })
        };
        let (mut at, mut rest) = (self.rewrite_from, &self.rewrite[..]);
        let mut first_link = link(self.anchor.end);
        while !rest.is_empty() {
            let piece = whole_records(&rest[..rest.len().min(FRAME_BYTES)]);
            let piece = piece.expect("the search took whole records, none larger than a frame");
            at = frames.push(&rest[..piece], at, self.anchor.end, first_link.take());
            rest = &rest[piece..];
        }
        // The cut may lie behind a jump of positions: the LINK continues from the end of the records before it.
        let end = at;
        // Two more blocks follow; the header comes first because a reader needs the size.
        let segment_bytes = frames.bytes.len() as u64 + 2 * BLOCK_BYTES;
        let header = SegmentHeader { log_id, number, salt, segment_bytes }.encode();
        frames.bytes[..header.len()].copy_from_slice(&header);
        file.write_at(0, &frames.bytes)?;
        file.sync_data()?;
        let mut offset = frames.bytes.len() as u64;
        // Each frame names as durable what the sync before it covered (LOG-7).
        for (durable, link) in [(end, link(end)), (self.next, None)] {
            frames.bytes.clear();
            frames.push(&[], self.next, durable, link);
            file.write_at(offset, &frames.bytes)?;
            file.sync_data()?;
            offset += frames.bytes.len() as u64;
        }
        assert_eq!(offset, segment_bytes, "the header says how large the file is");
        Ok(())
    }
}

/// Frames, concatenated.
struct Frames {
    bytes: Vec<u8>,
    salt: u64,
    number: u64,
    crc: u32,
}

impl Frames {
    /// Adds a frame and returns its end.
    fn push(&mut self, payload: &[u8], start: Lsn, durable: Lsn, link: Option<Link>) -> Lsn {
        self.number += 1;
        let header = FrameHeader {
            salt: self.salt,
            number: self.number,
            start,
            durable,
            payload_bytes: u32::try_from(payload.len()).expect("at most 2 MiB"),
            previous_crc: self.crc,
            end_mark: false,
            link,
        };
        let mut frame = vec![0; if link.is_some() { LINK_HEADER } else { HEADER }];
        frame.extend_from_slice(payload);
        self.crc = header.seal(&mut frame);
        self.bytes.extend_from_slice(&frame);
        header.end()
    }
}

/// Finds, in one pass over the chain, where a cut continues, which records it writes again and which it removes.
struct Search {
    lsn: Lsn,
    durable: Lsn,
    anchor: Option<Anchor>,
    rewrite: Vec<u8>,
    rewrite_from: Lsn,
    removed: Removed,
    /// The largest boundary at or below the cut, and the smallest above.
    below: Lsn,
    above: Option<Lsn>,
    /// Where the first frame ends: the lowest position that has a frame before it to continue from.
    lowest: Option<Lsn>,
}

impl Search {
    fn new(lsn: Lsn, found: &Scan) -> Self {
        let unreadable = found.leftovers.iter().any(|file| file.lost_frames);
        let removed = Removed { records: 0, stream_bytes: 0, end: found.end, unreadable };
        let durable = found.durable;
        let (rewrite, rewrite_from, below) = (Vec::new(), Lsn::ZERO, Lsn::ZERO);
        Self { lsn, durable, anchor: None, rewrite, rewrite_from, removed, below, above: None, lowest: None }
    }

    fn visit(&mut self, span: usize, frame: &Frame<'_>) {
        let (start, end) = (frame.header.start, frame.header.end());
        self.lowest.get_or_insert(end);
        // Everything up to the first frame that ends at or above the last known durable position is proven; the other
        // records that stay are written again (recover O1).
        let proven = self.anchor.is_none_or(|anchor| anchor.end < self.durable);
        if end <= self.lsn && proven {
            self.anchor = Some(Anchor { span, end, crc: frame.crc });
            self.rewrite.clear();
            self.rewrite_from = end;
        }
        self.boundary(start);
        let kept_from = self.anchor.map(|anchor| anchor.end);
        for (at, raw) in walk::records(frame) {
            let record_end = at.plus(raw.bytes);
            self.boundary(record_end);
            if at >= self.lsn {
                self.removed.stream_bytes += raw.bytes;
                self.removed.records += u64::from(matches!(raw.kind, KIND_DATA | KIND_LAST | KIND_UNLOGGED));
            } else if record_end <= self.lsn && kept_from.is_some_and(|kept| at >= kept) {
                let from = usize::try_from(at.bytes_since(start)).expect("inside a frame");
                let taken = usize::try_from(raw.bytes).expect("inside a frame");
                if self.rewrite.is_empty() {
                    // This may be behind a jump that no frame names as durable yet: nothing lies in between (`follow`
                    // F3).
                    self.rewrite_from = at;
                }
                self.rewrite.extend_from_slice(&frame.payload[from..from + taken]);
            }
        }
    }

    fn boundary(&mut self, at: Lsn) {
        if at <= self.lsn {
            self.below = self.below.max(at);
        } else if self.above.is_none_or(|above| at < above) {
            self.above = Some(at);
        }
    }
}

/// Copies a file without writing its long runs of zeros; the content is durable on return, the name is not.
fn copy_sparse(env: &Env, from: &Path, to: &Path) -> std::io::Result<()> {
    let (source, target) = (env.files.open(from, Access::Read)?, env.files.create(to)?);
    let (mut at, mut piece) = (0, vec![0; COPY_BYTES]);
    loop {
        let count = source.read_at(at, &mut piece)?;
        if count == 0 {
            break;
        }
        if piece[..count].iter().any(|byte| *byte != 0) {
            target.write_at(at, &piece[..count])?;
        }
        at += count as u64;
    }
    target.set_len(at)?;
    target.sync_data()
}
