//! `Follower`: the log of a replica: its records come from another log, at that log's positions, in frames and files of its
//! own.
//!
//! It is a [`Log`] that takes no appends: readers, tails, waits, figures, freeing and closing are the log's. What comes in
//! goes through the ring, so that one flush covers what gathered meanwhile, a failed write goes to another file, and who
//! waits for a mark waits as everywhere. The keeper flushes whatever there is as soon as nobody flushes: what comes here is
//! durable at the other end, and somebody there may wait for it.
//!
//! Knows bytes, positions and one tag; not packets, nor whose log it follows.
//!
//! # Invariants
//! - F1. A record has here the position that it has there; what lies between two records is what lay between them there:
//!   nothing, or a jump.
//! - F2. Nothing is taken that does not continue what is here, is not whole records, or jumps elsewhere than in front of a
//!   record with the tag given at opening.
//! - F3. A jump and the record behind it are one frame, written and synced before anything else: no opening finds the one
//!   without the other.
//! - F4. An opening goes on exactly behind the last whole record: no positions are skipped, since none were handed out here.
//!   Nor does it end what was unfinished: pieces of a record come before and after it (reason 7 of a LINK).
//! - F5. At most a ring is here that is not durable, and each record fits into a frame.
//!
//! # Progress
//! [`Follower::receive`] blocks on another call of it; on a flush while the ring is full, and once per jump.
//!
//! Checked by `follow_tests`.

use std::{path::Path, sync::Arc};

use collie_base::Lsn;
use collie_env::Env;
use collie_obs::{ReplReceive, Source, word, work_for};
use parking_lot::Mutex;

use crate::{
    Log, Mark, Options, Protocol, Recovered, RingKind, TailCheck, WalError, decode,
    format::{KIND_DATA, TAG_MAX},
    options::RECORD_OVERHEAD,
    unpack::check_run,
};

/// The largest record that any log writes: a piece, its head, and where it belongs.
const RECORD_BYTES_MAX: u64 = (1 << 20) + RECORD_OVERHEAD;

/// The log of a replica. Clones are handles of the same one; the last one to go closes it as well as it can.
#[derive(Clone, Debug)]
pub struct Follower {
    log: Log,
    jump_tag: u8,
    /// Held while records are taken.
    intake: Arc<Mutex<()>>,
}

impl Follower {
    /// Opens the log in `dir` as a replica's, creating it at `options.first_lsn` where there is none. `jump_tag`: the tag of
    /// the records in front of which positions may jump, because a life of the log that is followed begins there.
    ///
    /// `ring`, `protocol`, `first_record`, `manual_wal_flush` and `sync_every` of the options mean nothing here, and
    /// `frame_bytes` is at least what one record of any log takes, if the ring has room for it.
    ///
    /// # Errors
    /// As [`Log::open`]; `InvalidOptions` for `wal.copies`, which a replica does not have yet, and for a tag that is none.
    ///
    /// # Durability
    /// What [`Recovered`] names survives a power cut once this returns; `next` is `end`: what was received.
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
            protocol: Protocol::Oracle,
            first_record: None,
            manual_wal_flush: false,
            sync_every: 0,
            frame_bytes: options.frame_bytes.max(largest),
            ..options
        };
        let (log, recovered) = Log::open_following(env, dir, options)?;
        Ok((Self { log, jump_tag, intake: Arc::default() }, recovered))
    }

    /// Returns the log, for everything but appends: those are refused with `Follows`.
    ///
    /// # Progress
    /// Wait-free.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Takes the whole records that begin at `start` and continue `prev_end`. Returns where they end. They are flushed as soon
    /// as nobody flushes; wait for [`Mark::Written`] or [`Mark::Durable`] with [`Follower::log`].
    ///
    /// # Errors
    /// `Gap`: they do not continue [`Follower::end`]. `BadStream`: they are not whole records, one is larger than this log
    /// takes, or they jump where nothing may. Nothing was taken. `Full`: the disk has no room; of more than a quarter of
    /// the ring some may have been taken: go on from [`Follower::end`] once there is room. `Poisoned`, `Closed`: open again.
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

    /// Checks what F2 and F5 ask of the records of a run; returns how many there are.
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

    /// Returns where the records end that were taken: what the next ones continue.
    ///
    /// # Progress
    /// Blocks on the copy of what is being received.
    pub fn end(&self) -> Lsn {
        self.log.glsn()
    }

    /// Returns how far they are in the files: every record below survives the end of the process.
    ///
    /// # Progress
    /// Wait-free: one load.
    pub fn received(&self) -> Lsn {
        self.log.written()
    }

    /// Returns how far they are on disk: every record below survives a power cut.
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
    /// What was taken before the call survives a power cut.
    ///
    /// # Progress
    /// Blocks on a flush.
    pub fn flush(&self) -> Result<(), WalError> {
        self.log.flush_wal(true)
    }

    /// Returns the checksum of the last bytes before [`Follower::end`], after a flush: for the other end to see that both hold
    /// the same ([`Log::crc_before`]).
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

    /// Closes the log, as [`Log::close`].
    ///
    /// # Errors
    /// As [`Log::close`].
    ///
    /// # Durability
    /// What was taken survives a power cut.
    ///
    /// # Progress
    /// Blocks on a flush, on the threads of the log, and on writing the file of the cursors.
    pub fn close(self) -> Result<(), WalError> {
        self.log.close()
    }

    /// Ends following: makes everything durable and stops, for all handles. The log is opened by [`Log::open`] then, which
    /// begins a life of its own above the end, with [`Options::first_record`] in front. Returns the end.
    ///
    /// # Errors
    /// As [`Follower::flush`].
    ///
    /// # Durability
    /// What was taken survives a power cut. That it is followed no more is the next opening's word.
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

/// Returns the whole records at the front of `records` that fit into `most_bytes`, or the first one.
fn front(records: &[u8], most_bytes: u64) -> &[u8] {
    let most = usize::try_from(most_bytes).unwrap_or(usize::MAX);
    let Some(cut) = records.get(..most) else { return records };
    let first = || decode::record(records).and_then(|raw| usize::try_from(raw.bytes).ok()).unwrap_or(records.len());
    let count = decode::whole_records(cut).filter(|count| *count > 0).unwrap_or_else(first);
    &records[..count]
}
