//! `Segments`: the files of an open log: which exist, what they hold, and the spares prepared ahead.
//!
//! # Invariants
//! - G1. A spare has its number, a fresh salt, zeros or void bytes behind the header, and a durable name, before the
//!   flight writes to it: turning to it costs no extra sync.
//! - G2. Segment numbers grow; a number is used once per log, a salt once.
//! - G3. Freeing goes oldest first, each removal durable before the next, and never takes the last two segments: the
//!   end of the one before the current is where an open after a crash continues from.
//!
//! Checked by the crash tests (names lost at power cuts) and by `log_tests` (full disk, freeing).

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use collie_base::Lsn;
use collie_env::{Env, File};
use parking_lot::{Condvar, Mutex};

use crate::{
    WalError,
    format::{BLOCK, BLOCK_BYTES, SegmentHeader, segment_name},
};

/// A file ready to be written to.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: PathBuf,
    pub(crate) header: SegmentHeader,
}

/// A segment that holds part of the log.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) path: PathBuf,
    pub(crate) salt: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) first: Lsn,
    /// Where its frames stop counting; `None` while it is the current one.
    pub(crate) until: Option<u64>,
}

#[derive(Debug)]
struct Inner {
    spares: VecDeque<Spare>,
    spans: Vec<Span>,
    next_number: u64,
    preparing: bool,
    /// Why the last preparation failed; cleared by a success.
    failed: Option<String>,
    /// Whether the current segment is more than half written.
    half_full: bool,
    stop: bool,
}

/// The files of an open log.
#[derive(Debug)]
pub(crate) struct Segments {
    env: Env,
    dir: PathBuf,
    log_id: [u8; 16],
    segment_bytes: u64,
    wanted_spares: usize,
    max_segments: usize,
    inner: Mutex<Inner>,
    changed: Condvar,
}

/// Writes a fresh segment file under a temporary name and gives it its number. Gives up early once `stopped`.
pub(crate) fn prepare(
    env: &Env,
    dir: &std::path::Path,
    header: SegmentHeader,
    stopped: &dyn Fn() -> bool,
) -> Result<Spare, WalError> {
    let name = segment_name(header.number);
    let (path, temporary) = (dir.join(&name), dir.join(format!("{name}.tmp")));
    let fill = || {
        // A left-over of an earlier try; absent in the usual case.
        let _absent = env.files.remove(&temporary);
        let file = env.files.create(&temporary)?;
        let zeros = vec![0; usize::try_from(header.segment_bytes.min(1 << 20)).expect("at most 1 MiB")];
        let mut at = 0;
        while at < header.segment_bytes {
            if stopped() {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let piece = zeros.len().min(usize::try_from(header.segment_bytes - at).unwrap_or(usize::MAX));
            file.write_at(at, &zeros[..piece])?;
            at += piece as u64;
            // In steps, so that the commits going on beside this never queue behind a whole segment.
            if at.is_multiple_of(8 << 20) {
                file.sync_data()?;
            }
        }
        file.write_at(0, &header.encode())?;
        file.sync_data()?;
        env.files.replace(&temporary, &path)?;
        Ok(file)
    };
    match fill() {
        Ok(file) => Ok(Spare { file, path, header }),
        Err(source) => {
            let _best_effort = env.files.remove(&temporary);
            Err(WalError::io("prepare", path, source))
        }
    }
}

/// Gives a file that holds nothing any more a new number and salt.
pub(crate) fn prepare_again(
    env: &Env,
    dir: &std::path::Path,
    old: &std::path::Path,
    header: SegmentHeader,
) -> Result<Spare, WalError> {
    let path = dir.join(segment_name(header.number));
    let io = |source| WalError::io("prepare", old, source);
    let file = env.files.open(old, collie_env::Access::ReadWrite).map_err(io)?;
    file.write_at(0, &header.encode()).map_err(io)?;
    // Nothing of the first frame may count by chance; its salt is old anyway.
    file.write_at(BLOCK_BYTES, &[0; BLOCK]).map_err(io)?;
    file.sync_data().map_err(io)?;
    if old != path {
        env.files.replace(old, &path).map_err(io)?;
    }
    Ok(Spare { file, path, header })
}

/// What [`Segments::new`] starts from.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) spans: Vec<Span>,
    pub(crate) spares: Vec<Spare>,
    pub(crate) next_number: u64,
    pub(crate) log_id: [u8; 16],
}

impl Segments {
    pub(crate) fn new(env: Env, dir: PathBuf, options: &crate::Options, start: Start) -> Self {
        Self {
            env,
            dir,
            log_id: start.log_id,
            segment_bytes: options.segment_bytes,
            wanted_spares: options.spares as usize,
            max_segments: options.max_segments as usize,
            inner: Mutex::new(Inner {
                spares: start.spares.into(),
                spans: start.spans,
                next_number: start.next_number,
                preparing: false,
                failed: None,
                half_full: false,
                stop: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Returns what refuses appends now, if anything does: the current file is half full and there is no next one.
    pub(crate) fn full(&self) -> Option<String> {
        let inner = self.inner.lock();
        if inner.half_full && inner.spares.is_empty() { inner.failed.clone() } else { None }
    }

    /// Prepares one spare if there are too few; `Ok(false)` when there was nothing to do.
    pub(crate) fn prepare_one(&self) -> Result<bool, WalError> {
        let header = {
            let mut inner = self.inner.lock();
            if inner.preparing || inner.stop || inner.spares.len() >= self.wanted_spares {
                return Ok(false);
            }
            let files = inner.spans.len() + inner.spares.len();
            if files >= self.max_segments {
                let limit = self.max_segments;
                inner.failed = Some(format!("wal.max_segments = {limit} files hold records that are still needed"));
                return Err(WalError::Full { pinned_by: inner.failed.clone().unwrap_or_default() });
            }
            inner.preparing = true;
            let number = inner.next_number;
            inner.next_number += 1;
            let salt = self.env.random.u64();
            SegmentHeader { log_id: self.log_id, number, salt, segment_bytes: self.segment_bytes }
        };
        let prepared = prepare(&self.env, &self.dir, header, &|| self.inner.lock().stop);
        let mut inner = self.inner.lock();
        inner.preparing = false;
        self.changed.notify_all();
        match prepared {
            Ok(spare) => {
                inner.spares.push_back(spare);
                inner.failed = None;
                Ok(true)
            }
            Err(error) => {
                inner.failed = Some(error.to_string());
                Err(error)
            }
        }
    }

    /// Tells how far the current segment is written. More than half, without a spare: waits for the preparer, or
    /// prepares one here unless the last try failed, so that whatever is reserved fits into what is allocated.
    /// Returns whether appends must be refused now.
    pub(crate) fn ensure_room(&self, half_full: bool) -> bool {
        let mut inner = self.inner.lock();
        inner.half_full = half_full;
        loop {
            if !half_full || !inner.spares.is_empty() {
                return false;
            }
            if inner.preparing {
                self.changed.wait(&mut inner);
                continue;
            }
            if inner.failed.is_some() || inner.stop {
                return true;
            }
            drop(inner);
            // The outcome is read from `spares` and `failed` on the next turn.
            let _noted = self.prepare_one();
            inner = self.inner.lock();
        }
    }

    /// Leaves the current segment at `until` and takes the next spare, whose first record will be at `first`.
    pub(crate) fn turn(&self, until: u64, first: Lsn) -> Result<Spare, WalError> {
        let mut inner = self.inner.lock();
        while inner.spares.is_empty() {
            if inner.preparing {
                self.changed.wait(&mut inner);
                continue;
            }
            if inner.stop {
                return Err(WalError::Closed);
            }
            drop(inner);
            self.prepare_one()?;
            inner = self.inner.lock();
        }
        let spare = inner.spares.pop_front().expect("the loop ends with one");
        if let Some(span) = inner.spans.last_mut() {
            span.until = Some(until);
        }
        let path = spare.path.clone();
        let (salt, segment_bytes) = (spare.header.salt, spare.header.segment_bytes);
        inner.spans.push(Span { path, salt, segment_bytes, first, until: None });
        inner.half_full = false;
        self.changed.notify_all();
        Ok(spare)
    }

    /// The preparer thread: keeps the spares coming until [`Segments::stop`]; calls `changed` after each try.
    pub(crate) fn run_preparer(&self, changed: impl Fn()) {
        loop {
            let tried = self.prepare_one();
            changed();
            let mut inner = self.inner.lock();
            if inner.stop {
                return;
            }
            match tried {
                Ok(true) => {}
                Ok(false) => self.changed.wait(&mut inner),
                Err(_) => {
                    self.changed.wait_for(&mut inner, std::time::Duration::from_millis(100));
                }
            }
        }
    }

    /// Ends the preparer.
    pub(crate) fn stop(&self) {
        self.inner.lock().stop = true;
        self.changed.notify_all();
    }

    /// Returns the segments that hold the log, oldest first.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.inner.lock().spans.clone()
    }

    /// Returns how many segments hold the log and how many are ready.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.spans.len(), inner.spares.len())
    }

    /// Removes whole segments that end at or below `lsn` (G3); returns where the log starts now.
    pub(crate) fn free_before(&self, lsn: Lsn) -> Result<Lsn, WalError> {
        loop {
            let oldest = {
                let mut inner = self.inner.lock();
                let first = inner.spans.first().map_or(lsn, |span| span.first);
                let ends = inner.spans.get(1).map(|next| next.first);
                if inner.spans.len() <= 2 || ends.is_none_or(|end| end > lsn) {
                    return Ok(first);
                }
                let oldest = inner.spans.remove(0);
                if inner.failed.is_some() {
                    self.changed.notify_all();
                }
                oldest
            };
            let io = |source| WalError::io("remove", &oldest.path, source);
            self.env.files.remove(&oldest.path).map_err(io)?;
            self.env.files.sync_dir(&self.dir).map_err(io)?;
        }
    }
}
