//! `Records`: reads a log's records back from its files, oldest first; `inspect` does so without opening the log.
//!
//! Never reads the ring: what is not durable is not there. Every byte comes through `decode`.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::Lsn;
use collie_env::{Env, Files};

use crate::{
    WalError,
    decode::{self, Joiner, RecordKind},
    format::BLOCK_BYTES,
    segments::Span,
    survey::{Survey, survey},
    window::Window,
};

/// One record read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its position (of the last piece, when it was long).
    pub lsn: Lsn,
    /// The position after it.
    pub end: Lsn,
    /// Payload or hole.
    pub kind: RecordKind,
    /// The appender's tag.
    pub tag: u8,
    /// The payload.
    pub body: Vec<u8>,
    /// The file it lies in.
    pub path: Arc<Path>,
    /// Where its frame starts in the file.
    pub offset: u64,
}

/// Iterates over records; made by [`Log::read`](crate::Log::read) and [`Inspection::records`].
///
/// Yields those at or above the asked position, up to what was durable when it was made, in order; ends after the first
/// error. A record of several pieces is yielded if all of them lie in or behind the file that holds the asked position.
#[derive(Debug)]
pub struct Records {
    files: Arc<dyn Files>,
    spans: VecDeque<Span>,
    from: Lsn,
    limit: Lsn,
    position: Lsn,
    current: Option<(Window, Span, Arc<Path>, u64)>,
    ready: VecDeque<Record>,
    joiner: Joiner,
    failed: bool,
}

impl Records {
    pub(crate) fn new(files: Arc<dyn Files>, spans: Vec<Span>, from: Lsn, limit: Lsn, max_record: usize) -> Self {
        let skip = spans.iter().rposition(|span| span.first <= from).unwrap_or(0);
        Self {
            files,
            spans: spans.into_iter().skip(skip).collect(),
            from,
            limit,
            position: Lsn::ZERO,
            current: None,
            ready: VecDeque::new(),
            joiner: Joiner::new(max_record),
            failed: false,
        }
    }

    /// Returns the position behind the last frame read: how far the iteration has come.
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// Reads one frame into `ready`; `Ok(false)` at the end.
    fn read_frame(&mut self) -> Result<bool, WalError> {
        if self.current.is_none() {
            let Some(span) = self.spans.pop_front() else { return Ok(false) };
            if span.first >= self.limit {
                return Ok(false);
            }
            let window = Window::open(&*self.files, span.path.clone());
            let window = window.map_err(|error| match (&error, self.spans.front()) {
                (WalError::Io { source, .. }, Some(next)) if source.kind() == std::io::ErrorKind::NotFound => {
                    WalError::CursorLost { oldest: next.first }
                }
                _ => error,
            })?;
            let path: Arc<Path> = Arc::from(span.path.as_path());
            self.current = Some((window, span, path, BLOCK_BYTES));
        }
        let Some((window, span, path, offset)) = &mut self.current else { return Ok(false) };
        if span.until.is_some_and(|until| *offset >= until) {
            self.current = None;
            return Ok(true);
        }
        if span.until.is_none() && self.position >= self.limit {
            return Ok(false);
        }
        let at = *offset;
        let frame = match window.frame_at(at, Some(span.salt))? {
            Ok(frame) => frame,
            Err(bad) => {
                let salt = window.salt_now()?;
                if salt.is_some_and(|salt| salt != span.salt) {
                    // Freed and prepared again while we read it.
                    return Err(WalError::CursorLost {
                        oldest: self.spans.front().map_or(self.limit, |next| next.first),
                    });
                }
                let (lsn, path, durable) = (self.position, span.path.clone(), self.limit);
                return Err(WalError::Damaged {
                    lsn,
                    path,
                    offset: at,
                    stored: bad.stored,
                    computed: bad.computed,
                    durable,
                });
            }
        };
        let (mut lsn, mut rest) = (frame.header.start, frame.payload);
        while !rest.is_empty() {
            let Some(raw) = decode::record(rest) else {
                let (path, durable) = (span.path.clone(), self.limit);
                return Err(WalError::Damaged { lsn, path, offset: at, stored: 0, computed: 0, durable });
            };
            let end = lsn.plus(raw.bytes);
            if let Some((kind, body)) = self.joiner.take(&raw).filter(|_| lsn >= self.from && end <= self.limit) {
                self.ready.push_back(Record { lsn, end, kind, tag: raw.tag, body, path: path.clone(), offset: at });
            }
            rest = rest.get(usize::try_from(raw.bytes).unwrap_or(usize::MAX)..).unwrap_or(&[]);
            lsn = end;
        }
        self.position = frame.header.end();
        *offset = frame.next_offset;
        Ok(true)
    }
}

impl Iterator for Records {
    type Item = Result<Record, WalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(Ok(record));
            }
            if self.failed {
                return None;
            }
            match self.read_frame() {
                Ok(true) => {}
                Ok(false) => {
                    self.failed = true;
                    return None;
                }
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// One log file, as [`inspect`] found it.
#[derive(Clone, Debug)]
pub struct SegmentInfo {
    /// The file.
    pub path: PathBuf,
    /// Position of its first frame.
    pub first: Lsn,
    /// Where its frames stop counting.
    pub used_bytes: u64,
    /// Its size.
    pub segment_bytes: u64,
}

/// What a log directory holds, read without a lock and without writing: of a closed log or a running one.
#[derive(Debug)]
pub struct Inspection {
    files: Arc<dyn Files>,
    survey: Survey,
}

impl Inspection {
    /// Returns the position of the oldest record.
    pub fn start(&self) -> Lsn {
        self.survey.start()
    }

    /// Returns the end of the last frame.
    pub fn end(&self) -> Lsn {
        self.survey.end
    }

    /// Returns the largest position that the frames name as durable.
    pub fn durable(&self) -> Lsn {
        self.survey.durable
    }

    /// Returns the number of the last opening.
    pub fn incarnation(&self) -> u64 {
        self.survey.incarnation
    }

    /// Returns whether the log was closed.
    pub fn is_clean(&self) -> bool {
        self.survey.clean
    }

    /// Returns why the log would not open by default, if it would not.
    pub fn damage(&self) -> Option<WalError> {
        self.survey.damage_error()
    }

    /// Returns the line that an open would print about an unfinished flush, if there is one.
    pub fn torn_note(&self) -> Option<String> {
        self.survey.torn_note()
    }

    /// Returns the files that hold the log, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let info = |span: &Span| SegmentInfo {
            path: span.path.clone(),
            first: span.first,
            used_bytes: span.until.unwrap_or(BLOCK_BYTES),
            segment_bytes: span.segment_bytes,
        };
        self.survey.spans.iter().map(info).collect()
    }

    /// Returns how many files hold nothing of the log: spares.
    pub fn spare_count(&self) -> usize {
        self.survey.leftovers.len()
    }

    /// Iterates over the records from `from` to the end of the chain, or to the damage: nothing behind a gap.
    pub fn records(&self, from: Lsn) -> Records {
        let good = self.survey.damage.as_ref().map_or(self.survey.end, |damage| damage.lsn.min(self.survey.end));
        Records::new(self.files.clone(), self.survey.spans.clone(), from, good, 256 << 20)
    }
}

/// Reads the log directory `dir` once; nobody writes to it.
#[cfg(any(test, feature = "lab"))]
pub(crate) fn inspect_resting(env: &Env, dir: &Path) -> Result<Inspection, WalError> {
    Ok(Inspection { files: env.files.clone(), survey: survey(&*env.files, dir, None)? })
}

/// Reads the log directory `dir` without locking or changing it. A running log is read as far as it was written when
/// the files were looked at; its last flush may then look unfinished.
///
/// # Errors
/// `Io`, `ForeignLog`, `NewerFormat`. Damage is no error here: see [`Inspection::damage`].
pub fn inspect(env: &Env, dir: &Path) -> Result<Inspection, WalError> {
    let look = || {
        for _ in 0..3 {
            match survey(&*env.files, dir, None) {
                // A running log frees and renames files between our listing and our opening of them.
                Err(WalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                other => return other,
            }
        }
        survey(&*env.files, dir, None)
    };
    let mut found = look()?;
    if found.damage.is_some() {
        // A running log writes while we read: frames behind a place that was still empty when we passed it look like
        // proof of damage. Damage stays where it is; a running log's end moves on.
        let again = look()?;
        let runs = again.end > found.end;
        found = again;
        if runs {
            (found.damage, found.torn_bytes) = (None, 0);
        }
    }
    Ok(Inspection { files: env.files.clone(), survey: found })
}
