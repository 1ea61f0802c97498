//! `Follower`: the log of a replica. Its records come from another log and have that log's positions, but lie in frames
//! and files of this log.
//!
//! It is a [`Log`] that takes no appends: readers, tails, waits, figures, freeing and closing are those of the log.
//! Received records go through the ring, so that one flush covers everything that gathered during the last one, a
//! failed write goes to another file, and waits for a mark work as everywhere. The background flusher flushes whatever
//! there is as soon as no flush is in flight: the records are durable at the other end, and a caller there may wait for
//! the replica.
//!
//! This module handles bytes, positions and one tag. It knows no packets, nor the log that it follows.
//!
//! # Invariants
//! - F1. A record has the same position as in the followed log, and between two records lies the same as there:
//!   nothing, or a jump.
//! - F2. Nothing is taken that does not continue this log, is not whole records, or jumps elsewhere than before a
//!   record with the tag given at the opening.
//! - F3. A jump and the record behind it are one frame, written and synced before anything else: no opening finds the
//!   one without the other.
//! - F4. An opening continues exactly behind the last whole record: no positions are skipped, since none were handed
//!   out here. It also leaves unfinished records open: pieces of a record come before and after it (reason 7 of a
//!   LINK).
//! - F5. At most a ring of bytes is not durable, and each record fits into a frame.
//!
//! # Progress
//! [`Follower::receive`] blocks on another call of it; on a flush while the ring is full, and once per jump.
//!
//! Checked by `tests/follow.rs`.

use std::{path::Path, sync::Arc};

use collie_base::Lsn;
use collie_env::Env;
use collie_obs::{ReplReceive, Source, word, work_for};
use parking_lot::Mutex;

use crate::{
    Log, Mark, Options, Protocol, Recovered, RingKind, TailCheck, WalError, format::KIND_DATA, format::TAG_MAX,
    format::decode, options::RECORD_OVERHEAD, read::unpack::check_run,
};

/// The largest record that any log writes: a piece with its record head, its slot and its number.
const RECORD_BYTES_MAX: u64 = (1 << 20) + RECORD_OVERHEAD;

/// The log of a replica. Clones are handles of the same log; dropping the last one closes it as well as possible.
#[derive(Clone, Debug)]
pub struct Follower {
    log: Log,
    jump_tag: u8,
    /// Locked while records are taken.
    intake: Arc<Mutex<()>>,
}

impl Follower {
    /// Opens the log in `dir` as that of a replica, and creates it at `options.first_lsn` if there is none. Positions
    /// may jump only before records with the tag `jump_tag`, because an incarnation of the followed log begins with
    /// such a record.
    ///
    /// The options `ring`, `protocol`, `first_record`, `manual_wal_flush` and `sync_every` are ignored. `frame_bytes`
    /// is raised to the size of the largest record of any log, if the ring has room for it.
    ///
    /// # Errors
    /// As [`Log::open`]; `InvalidOptions` for `wal.copies`, which a replica's log does not support, and for a tag out
    /// of range.
    ///
    /// # Durability
    /// The records up to `end` of [`Recovered`] survive a power cut once this returns; `next` is equal to `end`, the
    /// end of the received records.
    ///
    /// # Progress
    /// Blocks on reading the whole log, on writing its first frame, and on preparing spares.
    pub fn open(env: &Env, dir: &Path, options: Options, jump_tag: u8) -> Result<(Self, Recovered), WalError> {
        if jump_tag > TAG_MAX {
            return Err(WalError::options(format!("a tag is at most {TAG_MAX}, not {jump_tag}")));
        }
        if !options.copies.is_empty() {
            return Err(WalError::options("wal.copies of a replica's log is not built: leave it empty there"));
        }
        let largest = RECORD_BYTES_MAX.min(options.ring_bytes / 4);
        let options = Options {
            ring: RingKind::Private,
            protocol: Protocol::Mutex,
            first_record: None,
            manual_wal_flush: false,
            sync_every: 0,
            frame_bytes: options.frame_bytes.max(largest),
            ..options
        };
        let (log, recovered) = Log::open_following(env, dir, options)?;
        Ok((Self { log, jump_tag, intake: Arc::default() }, recovered))
    }

    /// Returns the log, for everything except appends, which fail with `Follows`.
    ///
    /// # Progress
    /// Wait-free.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Takes the whole records that begin at `start` and continue `prev_end`, and returns their end. They are flushed
    /// as soon as no flush is in flight; wait for [`Mark::Written`] or [`Mark::Durable`] with [`Follower::log`].
    ///
    /// # Errors
    /// `Gap`: they do not continue [`Follower::end`]. `BadStream`: they are not whole records, one is larger than this
    /// log accepts, or they jump where no jump is allowed. Nothing was taken. `Full`: the disk has no room; of records
    /// larger than a quarter of the ring together, some may have been taken: continue from [`Follower::end`] once there
    /// is room. `Poisoned`, `Closed`: open the log again.
    ///
    /// # Durability
    /// None yet. A jump is durable with the records behind it that fit into a frame.
    ///
    /// # Progress
    /// Blocks on another call; on a flush while the ring is full, and once per jump.
    pub fn receive(&self, start: Lsn, prev_end: Lsn, records: &[u8]) -> Result<Lsn, WalError> {
        let _one_at_a_time = self.intake.lock();
        let core = self.log.core();
        let _scope = work_for(Source::Apply);
        let span = collie_obs::start::<ReplReceive>();
        check_run(self.end(), start, prev_end, records)?;
        let count = self.check_records(start, prev_end, records)?;
        let mut rest = records;
        // F3: a jump comes after everything before it is durable, and is synced with the records behind it.
        if start > prev_end {
            core.look_for_room_to_follow()?;
            self.log.wait(Mark::Durable, prev_end)?;
            let first = front(rest, core.options.frame_bytes_max());
            core.flusher.jump(start, first)?;
            rest = &rest[first.len()..];
        }
        while !rest.is_empty() {
            core.look_for_room_to_follow()?;
            let piece = front(rest, core.options.ring_bytes / 4);
            core.flusher.reserve.take_received(&**core, piece)?;
            core.flusher.poke(true);
            rest = &rest[piece.len()..];
        }
        if let Some(span) = span {
            span.stop_with(start, ReplReceive { bytes: word(records.len()), records: word(count) }, []);
        }
        Ok(start.plus(records.len() as u64))
    }

    /// Checks the records of a run (F2, F5); returns their number.
    fn check_records(&self, start: Lsn, prev_end: Lsn, records: &[u8]) -> Result<u64, WalError> {
        let limit = self.log.core().options.frame_bytes_max();
        let (mut at, mut rest, mut count) = (start, records, 0);
        while let Some(raw) = decode::record(rest) {
            if raw.bytes > limit {
                return Err(WalError::BadStream {
                    lsn: at,
                    what: "a record is larger than wal.frame_size, wal.chunk_size and a quarter of wal.ring_size here",
                });
            }
            if at == start && start > prev_end && (raw.kind, raw.tag) != (KIND_DATA, self.jump_tag) {
                return Err(WalError::BadStream {
                    lsn: at,
                    what: "positions jump, and no life of the log begins there",
                });
            }
            at = at.plus(raw.bytes);
            rest = &rest[usize::try_from(raw.bytes).expect("in memory")..];
            count += 1;
        }
        Ok(count)
    }

    /// Returns the end of the records taken, which the next ones must continue.
    ///
    /// # Progress
    /// Blocks on the copy of what is being received.
    pub fn end(&self) -> Lsn {
        self.log.glsn()
    }

    /// Returns the position below which every record survives the end of the process.
    ///
    /// # Progress
    /// Wait-free: one load.
    pub fn received(&self) -> Lsn {
        self.log.written()
    }

    /// Returns the position below which every record survives a power cut.
    ///
    /// # Progress
    /// Wait-free: one load.
    pub fn durable(&self) -> Lsn {
        self.log.durable()
    }

    /// Makes everything taken so far durable.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`.
    ///
    /// # Durability
    /// Records taken before the call survive a power cut.
    ///
    /// # Progress
    /// Blocks on a flush.
    pub fn flush(&self) -> Result<(), WalError> {
        self.log.flush_wal(true)
    }

    /// Returns the checksum of the last bytes before [`Follower::end`], after a flush. With it the other end checks
    /// that both hold the same ([`Log::crc_before`]).
    ///
    /// # Errors
    /// As [`Follower::flush`] and [`Log::tail_check`].
    ///
    /// # Durability
    /// As [`Follower::flush`].
    ///
    /// # Progress
    /// Blocks on a flush and on reading files.
    pub fn tail_check(&self) -> Result<TailCheck, WalError> {
        let _one_at_a_time = self.intake.lock();
        self.flush()?;
        self.log.tail_check()
    }

    /// Closes the log as [`Log::close`] does.
    ///
    /// # Errors
    /// As [`Log::close`].
    ///
    /// # Durability
    /// All records taken survive a power cut.
    ///
    /// # Progress
    /// Blocks on a flush, on the threads of the log, and on writing the file of the cursors.
    pub fn close(self) -> Result<(), WalError> {
        self.log.close()
    }

    /// Ends following: makes everything durable and stops the log, for all handles. [`Log::open`] then opens it, and
    /// begins a new incarnation above the end, with [`Options::first_record`] first. Returns the end.
    ///
    /// # Errors
    /// As [`Follower::flush`].
    ///
    /// # Durability
    /// All records taken survive a power cut. Only the next opening records that the log no longer follows.
    ///
    /// # Progress
    /// Blocks on a flush and on the threads of the log.
    pub fn promote(self) -> Result<Lsn, WalError> {
        let _last = self.intake.lock();
        self.flush()?;
        let end = self.end();
        self.log.abandon();
        Ok(end)
    }
}

/// Returns the whole records at the front of `records` that fit into `most_bytes`, at least the first one.
fn front(records: &[u8], most_bytes: u64) -> &[u8] {
    let most = usize::try_from(most_bytes).unwrap_or(usize::MAX);
    let Some(cut) = records.get(..most) else { return records };
    let first = || decode::record(records).and_then(|raw| usize::try_from(raw.bytes).ok()).unwrap_or(records.len());
    let count = decode::whole_records(cut).filter(|count| *count > 0).unwrap_or_else(first);
    &records[..count]
}
