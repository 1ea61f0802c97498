//! `Options`: the settings of a log, with their defaults and bounds.

use std::{path::PathBuf, time::Duration};

use collie_base::{Lsn, bytes_text, time_text};

use crate::{Checked, WalError, Warnings};

/// Opening refuses positions above this one: the number line must not end while the log runs.
pub(crate) const OPEN_LSN_LIMIT: u64 = 1 << 60;

/// Slots that writers beyond `wal.slots` take turns at.
pub(crate) const SHARED_SLOTS: u32 = 2;

/// An upper bound of the bytes that a record takes beyond those of its piece: length, kind, slot, number of the piece.
pub(crate) const RECORD_OVERHEAD: u64 = 32;

/// Largest payload of a record, whatever the settings are: the bound for a reader that does not know them.
pub(crate) const RECORD_BYTES_LIMIT: u64 = 256 << 20;
/// Largest number of directories in `wal.copies`.
const COPIES_MAX: u64 = 15;

/// The copies of the log that must hold a byte before it counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CopiesRequired {
    /// All live ones; a copy that fails or stalls is left out first.
    #[default]
    All,
    /// A majority of the configured ones.
    Quorum,
}

/// The way in which positions are handed out and the boundary is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Protocol {
    /// One short mutex around taking the position, copying and publishing.
    Mutex,
    /// Lock-free: one `fetch_add` gives the position; the boundary waits for each writer between that and the end of
    /// its copy.
    #[default]
    Base,
    /// Lock-free with staging: the boundary passes a writer that stalls in its copy. Costs a second copy of each record
    /// and a buffer of `wal.chunk_size` per slot in use.
    Help,
}

impl Protocol {
    /// Returns the default protocol.
    #[cfg(not(test))]
    fn of_this_run() -> Self {
        Self::default()
    }

    /// Returns the protocol for a run of this crate's tests: the default, or the one that `COLLIE_WAL_PROTOCOL` names
    /// (`make unit` runs them under each).
    #[cfg(test)]
    fn of_this_run() -> Self {
        match std::env::var("COLLIE_WAL_PROTOCOL").as_deref() {
            Ok("mutex") => Self::Mutex,
            Ok("base") => Self::Base,
            Ok("help") => Self::Help,
            Ok(other) => panic!("COLLIE_WAL_PROTOCOL = {other} is none of mutex, base, help"),
            Err(_) => Self::default(),
        }
    }
}

/// Where the ring lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RingKind {
    /// In the process: bytes that are not written yet are lost with it.
    #[default]
    Private,
    /// In memory that outlives the process, up to the next boot; opening fails if there is none.
    Shared,
    /// `Shared` if that is possible, else `Private` with a line that says why.
    Auto,
}

/// How an opening treats an end that is not clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RecoveryMode {
    /// Trims an unfinished flush, refuses damage.
    #[default]
    TolerateCorruptedTailRecords,
    /// Refuses everything but a clean close.
    AbsoluteConsistency,
    /// Trims an unfinished flush; opens the log before the damage and keeps copies of the damaged files as `.wal.bad`.
    PointInTime,
    /// Reads all that is readable and reports the holes. It opens nothing for writing, so opening a log refuses it: see
    /// [`salvage`](crate::recovery::salvage). A database opens read-only with the records that this yields.
    SkipAnyCorruptedRecords,
}

/// How far a commit waits, and therefore what it survives.
///
/// | level | returns when | process killed | power cut |
/// |---|---|---|---|
/// | `None` | the boundary has passed its marker | lost | lost |
/// | `Memory` | the boundary has passed it | kept with a shared ring, else lost if it was not written yet | lost if it was not flushed yet |
/// | `Process` | shared ring: the boundary has passed it; private ring: the kernel has it (one write per group) | kept | lost if it was not flushed yet: at most `wal.flush_delay` and one flush |
/// | `Disk` | it is on disk | kept | kept |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// Not logged: a marker takes its place in the order, and readers see a hole there.
    None,
    /// Until the boundary has passed it.
    Memory,
    /// Until it survives the process: in the ring if that is shared, else in the kernel.
    Process,
    /// Until it is on disk.
    Disk,
}

/// A prefix of the log that can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mark {
    /// Every record below is complete in memory.
    Boundary,
    /// Every byte below was handed to the kernel.
    Written,
    /// Every byte below is on disk.
    Durable,
}

/// Settings of a log. Sizes in bytes. See [`Options::default`] for the values.
#[derive(Clone, Debug)]
pub struct Options {
    /// `wal.protocol`: default `Base`.
    pub protocol: Protocol,
    /// `wal.ring`: whether bytes that are not written yet survive the process. Default `Private`.
    pub ring: RingKind,
    /// `wal.ring_dir`: the directory of a shared ring, on a tmpfs. The ring takes `wal.ring_size`, with `help` also
    /// `wal.chunk_size` for each slot. It is gone after a reboot, or with the container if that has its own tmpfs.
    /// Default `/dev/shm`.
    pub ring_dir: PathBuf,
    /// `wal.ring_size`: the bytes that may be in memory and not durable; a power of two, at least 4 chunks. Default 16
    /// MiB.
    pub ring_bytes: u64,
    /// `wal.chunk_size`: largest payload of one piece, 4 KiB to 1 MiB. Default 64 KiB.
    pub chunk_bytes: u64,
    /// `wal.slots`: writers at one time that share nothing with each other, 1 to 1024; further writers take turns at
    /// two more slots. Default 64.
    pub slots: u32,
    /// `wal.segment_size`: bytes of a log file, a multiple of 4096, at least twice ring + slots x chunk. Default 64
    /// MiB.
    pub segment_bytes: u64,
    /// `wal.spares`: files prepared ahead, 1 to 64; one more is kept for emergencies. With two or more, one of them is
    /// a reserve: on a full disk only appends that give room back may use it
    /// ([`Writer::set_gives_back`](crate::Writer::set_gives_back)). Default 2.
    pub spares: u32,
    /// Whether no file is prepared ahead before [`Log::let_prepare`](crate::Log::let_prepare) is called: for a caller
    /// that needs room on the disk to finish an opening of which the log is a part. A file that is needed is prepared
    /// in any case. Default false.
    pub spares_wait: bool,
    /// `wal.max_segments`: the largest number of log files, at least 8. Default 1024.
    pub max_segments: u32,
    /// `wal.frame_size`: largest flush, at most 2 MiB. Default 1 MiB.
    pub frame_bytes: u64,
    /// `wal.max_record`: largest payload, at most 256 MiB. Default 256 MiB.
    pub max_record_bytes: u64,
    /// `wal.recent_size`: bytes of frames kept in memory for tails, at most 1 GiB; nothing is kept without a tail.
    /// Default 8 MiB.
    pub recent_bytes: u64,
    /// `wal.flush_delay`: how long records that no caller waits for may stay in memory, 1 ms to 10 s. Default 10 ms.
    pub flush_delay: Duration,
    /// `wal.flush_bytes`: how many bytes that no caller waits for may gather, 4 KiB to half the ring. Default 1 MiB.
    pub flush_bytes: u64,
    /// `wal.manual_wal_flush`: records that no caller waits for stay in memory until
    /// [`flush_wal`](crate::Log::flush_wal), a `Disk` commit, with a private ring a `Process` commit, a half-full ring,
    /// or close: `true` is less durable. Default false.
    pub manual_wal_flush: bool,
    /// `wal.sync_every` = N: every N-th commit, counted over all threads, is `Disk`; at most 1,000,000, and 0 means
    /// none. One writer then loses at most N - 1 returned commits, T writers T x (N - 1). Default 0.
    pub sync_every: u64,
    /// `wal.recovery_mode`. Default `TolerateCorruptedTailRecords`.
    pub recovery_mode: RecoveryMode,
    /// A position that the caller knows to have been durable: an end below it is damage. Default none.
    pub known_durable: Option<Lsn>,
    /// A position that the caller's checkpoint needs: a log that starts above it lacks its oldest files. For a caller
    /// that frees old records and knows up to where; a database sets it itself. Default none.
    pub known_start: Option<Lsn>,
    /// Where a new log begins: 4096, the default, or above. An existing log continues where it is. For a log that
    /// continues the positions of another one, and for tests of high positions.
    pub first_lsn: Lsn,
    /// Tag and body of a record that is appended first if the opening skipped positions. Default none.
    pub first_record: Option<(u8, Vec<u8>)>,
    /// Receives the progress of an opening's check of the files, which may take long. Default: the progress is not
    /// read.
    pub checked: Checked,
    /// Receives the lines for an operator while the log runs. Default: they are dropped.
    pub warnings: Warnings,
    /// `wal.copies`: directories in addition to the log's own that hold the same segments, at most 15. Default none.
    pub copies: Vec<PathBuf>,
    /// `wal.copies_required`. `Quorum` counts as `All` while `open_with` is less than a majority. Default `All`.
    pub copies_required: CopiesRequired,
    /// `wal.copies_min`: with fewer live copies, including the log's own directory, nothing is acknowledged. Default 1.
    pub copies_min: u32,
    /// `wal.copy_stall`: how much longer than the others a copy may take before it is left out, 10 ms to 1 h; needs
    /// `threads`. Default 2 s.
    pub copy_stall: Duration,
    /// `wal.open_with`: the number of copies that suffices for an opening although others may hold more. Default none:
    /// the log opens only if no acknowledged record can be missing.
    pub open_with: Option<u32>,
    /// Whether the log runs its own threads (background flusher, preparer). Without them nothing happens between calls:
    /// a waiting call flushes by itself, a future is driven by [`Log::try_lead`](crate::Log::try_lead), and the owner
    /// calls [`Log::tick`](crate::Log::tick). Default true.
    pub threads: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            protocol: Protocol::of_this_run(),
            ring: RingKind::Private,
            ring_dir: PathBuf::from("/dev/shm"),
            ring_bytes: 16 << 20,
            chunk_bytes: 64 << 10,
            slots: 64,
            segment_bytes: 64 << 20,
            spares: 2,
            spares_wait: false,
            max_segments: 1024,
            frame_bytes: 1 << 20,
            max_record_bytes: RECORD_BYTES_LIMIT,
            recent_bytes: 8 << 20,
            flush_delay: Duration::from_millis(10),
            flush_bytes: 1 << 20,
            manual_wal_flush: false,
            sync_every: 0,
            recovery_mode: RecoveryMode::default(),
            known_durable: None,
            known_start: None,
            first_lsn: Lsn::FIRST,
            first_record: None,
            checked: Checked::default(),
            warnings: Warnings::default(),
            copies: Vec::new(),
            copies_required: CopiesRequired::All,
            copies_min: 1,
            copy_stall: Duration::from_secs(2),
            open_with: None,
            threads: true,
        }
    }
}

impl Options {
    /// Returns settings for tests and examples: a ring of 256 KiB, files of 1 MiB, one spare.
    pub fn small() -> Self {
        Self {
            ring_bytes: 256 << 10,
            chunk_bytes: 16 << 10,
            slots: 8,
            segment_bytes: 1 << 20,
            spares: 1,
            frame_bytes: 128 << 10,
            flush_bytes: 64 << 10,
            ..Self::default()
        }
    }

    /// Returns the smallest size of a segment: twice what may be reserved, so that all of `skip_bytes` fits into one
    /// file whatever the number of slots, since a ring is at least four chunks.
    pub(crate) fn segment_bytes_min(&self) -> u64 {
        2 * (self.ring_bytes + u64::from(self.slots) * self.chunk_bytes)
    }

    /// Returns the number of positions beyond the durable ones that one incarnation may hand out: those that the next
    /// open after a crash skips.
    pub(crate) fn skip_bytes(&self) -> u64 {
        let slots = u64::from(self.slots + SHARED_SLOTS);
        self.ring_bytes + slots * (self.chunk_bytes + RECORD_OVERHEAD)
    }

    /// Returns the largest payload of a frame: `wal.frame_size`, but no smaller than the largest record.
    pub(crate) fn frame_bytes_max(&self) -> u64 {
        self.frame_bytes.max(self.chunk_bytes + RECORD_OVERHEAD)
    }

    /// Checks every setting against its bounds.
    pub(crate) fn validate(&self) -> Result<(), WalError> {
        let refuse = |message: String| Err(WalError::InvalidOptions { message });
        let within_as = |text: &dyn Fn(u64) -> String, name: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            let [value, low, high] = [value, low, high].map(text);
            Err(WalError::options(format!("{name} = {value} is out of bounds: use {low} to {high}")))
        };
        let within = |name: &str, value, low, high| within_as(&|count| count.to_string(), name, value, low, high);
        let bytes_within = |name: &str, bytes, low, high| within_as(&bytes_text, name, bytes, low, high);
        let time_within = |name: &str, time: Duration, low: Duration, high: Duration| {
            let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            within_as(&|us| time_text(Duration::from_micros(us)), name, us(time), us(low), us(high))
        };
        if self.recovery_mode == RecoveryMode::SkipAnyCorruptedRecords {
            return refuse(
                "wal.recovery_mode = skip_any_corrupted_records only reads and opens nothing: read what is left with \
                 collie wal dump --skip-bad (collie_wal::salvage), or open with point_in_time"
                    .to_owned(),
            );
        }
        bytes_within("wal.chunk_size", self.chunk_bytes, 4 << 10, 1 << 20)?;
        bytes_within("wal.ring_size", self.ring_bytes, 4 * self.chunk_bytes, 1 << 40)?;
        if !self.ring_bytes.is_power_of_two() {
            return refuse(format!("wal.ring_size = {} is not a power of two", bytes_text(self.ring_bytes)));
        }
        within("wal.slots", u64::from(self.slots), 1, 1024)?;
        bytes_within("wal.segment_size", self.segment_bytes, self.segment_bytes_min(), 1 << 40)?;
        if !self.segment_bytes.is_multiple_of(4096) {
            return refuse(format!("wal.segment_size = {} is not a multiple of 4KiB", bytes_text(self.segment_bytes)));
        }
        within("wal.spares", u64::from(self.spares), 1, 64)?;
        within("wal.max_segments", u64::from(self.max_segments), 8, 1 << 30)?;
        bytes_within("wal.frame_size", self.frame_bytes, 4 << 10, 2 << 20)?;
        bytes_within("wal.max_record", self.max_record_bytes, self.chunk_bytes, RECORD_BYTES_LIMIT)?;
        bytes_within("wal.recent_size", self.recent_bytes, 0, 1 << 30)?;
        within("wal.copies: directories", self.copies.len() as u64, 0, COPIES_MAX)?;
        if let Some(twice) = self.copies.iter().enumerate().find(|(at, dir)| self.copies[..*at].contains(dir)) {
            return refuse(format!("wal.copies names {} twice", twice.1.display()));
        }
        within("wal.copies_min", u64::from(self.copies_min), 1, self.copies.len() as u64 + 1)?;
        time_within("wal.copy_stall", self.copy_stall, Duration::from_millis(10), Duration::from_secs(3600))?;
        if let Some(copies) = self.open_with {
            within("wal.open_with", u64::from(copies), 1, self.copies.len() as u64 + 1)?;
        }
        bytes_within("wal.flush_bytes", self.flush_bytes, 4 << 10, self.ring_bytes / 2)?;
        within("wal.sync_every", self.sync_every, 0, 1_000_000)?;
        time_within("wal.flush_delay", self.flush_delay, Duration::from_millis(1), Duration::from_secs(10))
    }
}
