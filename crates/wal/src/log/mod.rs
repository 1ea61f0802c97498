//! `Log`: the handle of an open log, for queries, waits, reads and closing. It joins the parts, and its only rule is
//! their order.
//!
//! [`Writer`] appends and commits.
//!
//! | file | holds |
//! |---|---|
//! | `writer`, `write_options` | appends and commits, and the options of one write |
//! | `follow` | the log of a replica |
//! | `duplicate` | a copy of a running log in another directory |
//! | `owner` | the threads of a log, and its end |
//! | `lead` | the permit to run one flush on the caller's thread |
//! | `reached` | the future of a mark |
//! | `flush_settings` | settings of the flusher that can change |
//! | `stat` | the figures of a running log |

pub(crate) mod duplicate;
mod flush_settings;
pub(crate) mod follow;
pub(crate) mod lead;
pub(crate) mod owner;
pub(crate) mod reached;
pub(crate) mod stat;
pub(crate) mod write_options;
pub(crate) mod writer;

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use collie_base::Lsn;
use collie_env::Env;

use crate::{
    ConsumerStat, Ending, Freed, Lead, Level, Mark, Options, Reached, ReadMode, Records, Recovered, RingKind,
    ShipOptions, Shipper, Stat, Tail, TailCheck, TailOptions, WalError, Writer, core::Core, flush::Flusher,
    flush::Purpose, log::owner::Owner, read::frame_reader::FrameReader, read::frame_reader::Running,
    stream::tail_check,
};

/// An open log. Clones are handles of the same log; dropping the last one closes it as well as possible.
#[derive(Clone, Debug)]
pub struct Log {
    owner: Arc<Owner>,
}

/// The room of a log file that [`Log::lend_spare`] gave up, until this is dropped.
#[derive(Debug)]
#[must_use = "the room is taken back when this is dropped"]
pub struct LentSpare {
    log: Log,
}

impl Drop for LentSpare {
    fn drop(&mut self) {
        self.log.flusher().segments.end_loan();
    }
}

impl Log {
    /// Opens the log in `dir`, and creates it if there is none.
    ///
    /// # Errors
    /// `InvalidOptions`; `Locked` if another process has it open; `Damaged`, `Unfinished`, `ForeignLog`, `NewerFormat`
    /// depending on `wal.recovery_mode`; `CopiesMissing`, `CopiesDiffer` with several copies; `Io`.
    ///
    /// # Durability
    /// The records that [`Recovered`] describes survive a power cut once this returns.
    ///
    /// # Progress
    /// Blocks on reading the whole log, on writing its first frame, and on preparing spares.
    pub fn open(env: &Env, dir: &Path, options: Options) -> Result<(Self, Recovered), WalError> {
        let (log, recovered) = Self::open_as(env, dir, options, false)?;
        if recovered.ending == Ending::Unclean
            && let Some((tag, body)) = log.core().options.first_record.clone()
        {
            log.writer().append(tag, &[&body])?;
        }
        Ok((log, recovered))
    }

    /// Opens the log in `dir` as one that takes its records from another.
    pub(crate) fn open_following(env: &Env, dir: &Path, options: Options) -> Result<(Self, Recovered), WalError> {
        Self::open_as(env, dir, options, true)
    }

    fn open_as(env: &Env, dir: &Path, options: Options, follows: bool) -> Result<(Self, Recovered), WalError> {
        let (core, recovered) = Core::open(env, dir, options, follows)?;
        // From here on a failure drops `log`, which stops the threads that already run.
        let log = Self { owner: Arc::new(Owner::new(core)) };
        if log.core().options.threads {
            log.owner.start_threads()?;
        }
        Ok((log, recovered))
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }

    pub(crate) fn flusher(&self) -> &Flusher {
        &self.core().flusher
    }

    /// Returns a new writer. Never fails: writers beyond `wal.slots` take turns at two shared slots.
    ///
    /// # Progress
    /// Short mutexes.
    pub fn writer(&self) -> Writer {
        let slot = self.flusher().reserve.take_slot();
        if slot.is_none() {
            self.core().slotless_writers.fetch_add(1, Ordering::Relaxed);
        }
        Writer::new(self.clone(), slot)
    }

    /// Counts a commit and returns the level that it has to wait for: `level`, or `Disk` for every N-th commit with
    /// `wal.sync_every` = N. For callers that append and wait themselves; [`Writer::commit`] and [`Writer::write`] call
    /// it. Commits that are not logged do not count.
    ///
    /// # Progress
    /// Wait-free: at most one `fetch_add`.
    pub fn commit_level(&self, level: Level) -> Level {
        let (core, every) = (self.core(), self.core().options.sync_every);
        if every == 0 || level == Level::None {
            return level;
        }
        let nth = core.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if nth.is_multiple_of(every) { Level::Disk } else { level }
    }

    /// Returns the kind of the ring: `Private`, or `Shared`, with which everything below the boundary survives the
    /// process.
    ///
    /// # Progress
    /// Wait-free.
    pub fn ring(&self) -> RingKind {
        self.core().home.kind()
    }

    /// Returns the boundary as it was last moved: every record below is complete in memory. With a lock-free protocol
    /// an append that has returned may not be below it yet: wait for [`Mark::Boundary`].
    ///
    /// # Progress
    /// Wait-free: one load.
    pub fn boundary(&self) -> Lsn {
        self.flusher().mark(Mark::Boundary)
    }

    /// Returns the next free position.
    ///
    /// # Progress
    /// Wait-free: one load. With the mutex protocol, blocks on the copy of another appender.
    pub fn glsn(&self) -> Lsn {
        self.flusher().reserve.next()
    }

    /// Returns the position below which the kernel has every byte.
    ///
    /// # Progress
    /// Wait-free: one load.
    pub fn written(&self) -> Lsn {
        self.flusher().mark(Mark::Written)
    }

    /// Returns the size of the log's file system in bytes, the smallest one with several copies; `None` if it is not
    /// known.
    ///
    /// # Progress
    /// Blocks on the operating system.
    pub fn disk_bytes(&self) -> Option<u64> {
        self.core().env.files.disk_bytes(&self.core().dir)
    }

    /// Returns the position below which every byte is on disk.
    ///
    /// # Progress
    /// Wait-free: one load.
    pub fn durable(&self) -> Lsn {
        self.flusher().mark(Mark::Durable)
    }

    /// Returns whether `mark` has reached `lsn`. For the boundary this reads the flags of all slots in use, unless the
    /// answer is known already.
    ///
    /// # Progress
    /// Wait-free: one load; for the boundary lock-free, as moving it is a `fetch_max`.
    pub fn is_reached(&self, mark: Mark, lsn: Lsn) -> bool {
        let flusher = self.flusher();
        match mark {
            Mark::Boundary => flusher.reserve.is_complete(lsn),
            Mark::Written | Mark::Durable => flusher.mark(mark) >= lsn,
        }
    }

    /// Blocks until `mark` reaches `lsn`, which an append of this log returned.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`: it never will.
    ///
    /// # Durability
    /// For [`Mark::Durable`], every record below `lsn` survives a power cut; for [`Mark::Written`], the end of the
    /// process.
    ///
    /// # Progress
    /// Blocks on a flush: leads one if no in-flight flush covers `lsn`, else parks until one ends. For the boundary,
    /// blocks on the copies of other appenders.
    pub fn wait(&self, mark: Mark, lsn: Lsn) -> Result<(), WalError> {
        if mark == Mark::Boundary {
            self.flush_soon();
        }
        self.flusher().wait(mark, lsn)
    }

    /// Returns a future that is ready once `mark` reaches `lsn`. Its first poll starts a flush on the background
    /// flusher. Futures of one mark complete in the order of their positions, and one thread may have thousands
    /// pending:
    ///
    /// ```
    /// # use collie_sync::block_on;
    /// # use collie_wal::{Log, Mark, Options};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (log, _) = Log::open(&collie_env::Env::real(), dir.path(), Options::small())?;
    /// let mut writer = log.writer();
    /// let mut in_flight = Vec::new();
    /// for number in 0..10_000_u32 {
    ///     let end = writer.append(1, &[&number.to_le_bytes()])?.end; // returns at once
    ///     in_flight.push(log.reached(Mark::Durable, end));
    /// }
    /// // With the executor of your choice; the first wait flushes for many.
    /// for acknowledged in in_flight {
    ///     block_on(acknowledged)?;
    /// }
    /// # Ok::<(), collie_wal::WalError>(())
    /// ```
    ///
    /// # Cancel safety
    /// Dropping it removes the waiter and nothing else.
    ///
    /// # Progress
    /// Wait-free. A poll of the future takes a short mutex and blocks on nothing.
    pub fn reached(&self, mark: Mark, lsn: Lsn) -> Reached {
        Reached::new(self.core().clone(), mark, lsn)
    }

    /// Takes the permit to flush on this thread now, if records wait to become durable and a flush may begin.
    ///
    /// # Progress
    /// Short mutexes; lock-free where it moves the boundary.
    pub fn try_lead(&self) -> Option<Lead> {
        let flusher = self.flusher();
        if flusher.mark(Mark::Durable) >= flusher.reserve.advance() {
            return None;
        }
        let permit = flusher.begin(&mut flusher.queue.lock(), Purpose::Sync)?;
        Some(Lead::new(self.core().clone(), permit))
    }

    /// Requests that everything appended so far becomes durable within `wal.flush_delay`, without waiting for it.
    ///
    /// # Progress
    /// Wait-free: a fence and a load; a short mutex if the background flusher sleeps.
    pub fn flush_soon(&self) {
        self.flusher().poke(false);
    }

    /// Makes everything below the boundary `written`, or with `sync` `durable`.
    ///
    /// # Errors
    /// As [`Log::wait`].
    ///
    /// # Durability
    /// With `sync` everything below the boundary survives a power cut, else the end of the process.
    ///
    /// # Progress
    /// Blocks on a flush, as [`Log::wait`].
    pub fn flush_wal(&self, sync: bool) -> Result<(), WalError> {
        let mark = if sync { Mark::Durable } else { Mark::Written };
        self.flusher().wait(mark, self.flusher().reserve.advance())
    }

    /// Makes everything `written` durable; records that are only in the ring stay there.
    ///
    /// # Errors
    /// As [`Log::wait`].
    ///
    /// # Durability
    /// Everything `written` before the call survives a power cut.
    ///
    /// # Progress
    /// Blocks on a sync, its own or that of another flush.
    pub fn sync_wal(&self) -> Result<(), WalError> {
        self.flusher().wait_leading(Mark::Durable, self.written(), Purpose::SyncOnly)
    }

    /// Reads the records at or above `from` up to the current durable end, by file reads: see [`Log::read_with`].
    ///
    /// # Progress
    /// Short mutexes, no I/O. The iterator blocks on reading files; the log continues meanwhile.
    pub fn read(&self, from: Lsn) -> Records {
        self.records(from, ReadMode::File)
    }

    /// Reads the records at or above `from` up to the current durable end. A `from` below the oldest record starts
    /// there.
    ///
    /// # Errors
    /// None yet; the iterator opens each file when it comes to it.
    ///
    /// # Durability
    /// Yielded records are durable.
    ///
    /// # Progress
    /// Short mutexes, no I/O. The iterator blocks on reading files; the log continues meanwhile.
    pub fn read_with(&self, from: Lsn, mode: ReadMode) -> Result<Records, WalError> {
        Ok(self.records(from, mode))
    }

    fn records(&self, from: Lsn, mode: ReadMode) -> Records {
        let core = self.core();
        // In this order: everything durable lies in the segments that are listed afterwards.
        let end = core.flusher.recent.durable_end(self.durable());
        let (limit, pins) = (end.lsn, core.flusher.segments.pins.clone());
        let (hold, spans) = core.flusher.segments.hold_from(from, format!("a mapped reader from {from}"), None);
        let running = Running { pins, end, mapped: (mode == ReadMode::Map).then_some(hold) };
        let frames = FrameReader::new(core.env.files.clone(), spans, from, Some(running));
        Records::new(frames, from, limit, core.options.max_record_bytes)
    }

    /// Follows the log as the consumer `name`: yields each record at or above its cursor once it is durable, and keeps
    /// the files it needs, up to its bound. The cursor outlives the tail: it keeps files until the consumer comes back,
    /// falls behind its bound, or is removed.
    ///
    /// # Errors
    /// `CursorLost` if records at or above the cursor were freed, or the consumer fell behind its bound: place it again
    /// with [`TailOptions::from`]. `InvalidOptions`: the name, the bound, or another tail has the cursor. `Io`,
    /// `Closed`.
    ///
    /// # Durability
    /// The cursor is on disk once this returns.
    ///
    /// # Progress
    /// Blocks on writing and syncing a small file.
    pub fn tail(&self, name: &str, options: TailOptions) -> Result<Tail, WalError> {
        Tail::new(self.core().clone(), name, &options)
    }

    /// Yields the log's records as the bytes of the stream, as the consumer `name`. It is for a sender of replication,
    /// whose slot is the cursor. It never stops an append: beyond its bound it loses its place.
    ///
    /// # Errors
    /// As [`Log::tail`]; `CursorLost` also means that a replica is too far behind.
    ///
    /// # Durability
    /// The cursor is on disk once this returns.
    ///
    /// # Progress
    /// Blocks on writing and syncing a small file.
    pub fn ship(&self, name: &str, options: ShipOptions) -> Result<Shipper, WalError> {
        Shipper::new(self.core().clone(), name, &options)
    }

    /// Returns the checksum of the last bytes of the stream below the durable end. With it, [`Log::crc_before`] of
    /// another log with the same positions shows whether that log holds the same bytes there.
    ///
    /// # Errors
    /// `Damaged`, `Io`.
    ///
    /// # Durability
    /// The covered bytes are durable.
    ///
    /// # Progress
    /// Blocks on reading files, as [`Log::crc_before`].
    pub fn tail_check(&self) -> Result<TailCheck, WalError> {
        tail_check::tail_check(self.core(), self.durable())
    }

    /// Returns the CRC-32C of the `bytes` bytes of the stream before `end`, as [`Log::tail_check`] returns it at the
    /// other end; `None` if the log does not hold all of them in one piece below its durable end.
    ///
    /// # Errors
    /// `Damaged`, `Io`.
    ///
    /// # Durability
    /// The covered bytes are durable.
    ///
    /// # Progress
    /// Blocks on reading files, of at most [`TAIL_CHECK_BYTES`](crate::TAIL_CHECK_BYTES) and the bytes before them in
    /// the same file.
    pub fn crc_before(&self, end: Lsn, bytes: u32) -> Result<Option<u32>, WalError> {
        tail_check::crc_before(self.core(), end, bytes)
    }

    /// Returns the CRC-32C of the stream from `from` to `to`. At each jump the position to which it leads (u64,
    /// little-endian) is hashed before the records that follow. Another log with the same positions and bytes returns
    /// the same. `None` if the log does not hold all of it below its durable end.
    ///
    /// # Errors
    /// `Damaged`, `Io`.
    ///
    /// # Durability
    /// The covered bytes are durable.
    ///
    /// # Progress
    /// Blocks on reading files, of everything covered and the bytes before it in the same file.
    pub fn crc_between(&self, from: Lsn, to: Lsn) -> Result<Option<u32>, WalError> {
        tail_check::crc_between(self.core(), from, to)
    }

    /// Returns whether there are consumers, attached or not.
    ///
    /// # Progress
    /// Wait-free.
    pub fn has_consumers(&self) -> bool {
        !self.core().consumers.is_empty()
    }

    /// Returns the figures of all consumers, ordered by name, with the files that each keeps, as [`Log::stat`] does.
    ///
    /// # Progress
    /// Blocks on turning to the next file.
    pub fn consumers(&self) -> Vec<ConsumerStat> {
        self.core().consumers.stats(&self.flusher().segments.spans(), self.durable())
    }

    /// Bounds the log kept for the consumer `name` from now on, in bytes of files as [`TailOptions::bound_bytes`]; with
    /// `None` at as many files as `wal.max_segments` allows a consumer. Its policy stays. Returns whether there is such
    /// a consumer; a consumer that has lost its place stays lost.
    ///
    /// # Errors
    /// `InvalidOptions` for 0 bytes; `Io`, `Closed`: the bound counts until the log is closed.
    ///
    /// # Durability
    /// The bound is on disk once this returns.
    ///
    /// # Progress
    /// Blocks on writing and syncing a small file if the bound changes.
    pub fn bound_consumer(&self, name: &str, bytes: Option<u64>) -> Result<bool, WalError> {
        let bounded = self.core().consumers.set_bound(&self.flusher().segments, name, bytes);
        self.flusher().refresh_full();
        bounded
    }

    /// Removes the consumer `name` and its cursor; returns whether there was one.
    ///
    /// # Errors
    /// `InvalidOptions` while a tail has it; `Io`: it may come back after a crash.
    ///
    /// # Durability
    /// The removal is on disk once this returns.
    ///
    /// # Progress
    /// Blocks on writing and syncing a small file.
    pub fn remove_consumer(&self, name: &str) -> Result<bool, WalError> {
        let (core, segments) = (self.core(), &self.flusher().segments);
        let removed = core.consumers.remove(segments, name);
        self.flusher().refresh_full();
        removed
    }

    /// Frees whole files whose records all lie below `lsn` and below every hold, oldest first, but never the last two.
    /// Returns the new start of the log, and the holder of the rest.
    ///
    /// # Errors
    /// `Io`; files freed before the error stay freed.
    ///
    /// # Durability
    /// The freed files are gone once this returns, and after a crash too.
    ///
    /// # Progress
    /// Blocks on writing and syncing the file of the cursors, if one moved, and on removing files.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<Freed, WalError> {
        let segments = &self.flusher().segments;
        // First, so that consumers release all files that they have passed.
        self.core().consumers.save(segments)?;
        segments.free_before(lsn.min(self.durable()))
    }

    /// Returns why records are refused for lack of room on the disk or of files, if they are.
    ///
    /// # Progress
    /// Short mutexes.
    pub fn full(&self) -> Option<String> {
        self.flusher().segments.full()
    }

    /// Allows spares to be prepared, if the log was opened to wait with that
    /// ([`Options::spares_wait`](crate::Options)).
    ///
    /// # Progress
    /// Short mutexes.
    pub fn let_prepare(&self) {
        self.flusher().segments.let_prepare();
    }

    /// Removes a spare of at least `bytes`, so that its room on a full disk is free for other files, and prepares none
    /// until the returned guard is dropped. Returns `None` if there is no spare to give; one is always kept.
    ///
    /// # Durability
    /// The file is gone when this returns.
    ///
    /// # Progress
    /// Blocks on removing a file.
    pub fn lend_spare(&self, bytes: u64) -> Option<LentSpare> {
        self.flusher().segments.lend_spare(bytes).then(|| LentSpare { log: self.clone() })
    }

    /// Returns the figures of the log.
    ///
    /// # Progress
    /// Blocks on a flush that builds its frame, turns to the next file, or repairs a failed one.
    pub fn stat(&self) -> Stat {
        Stat::of(self.core())
    }

    /// Does the work of the background flusher and the preparer once, and brings back copies that were left out; for
    /// logs without threads.
    ///
    /// # Errors
    /// As [`Log::wait`]. A file that could not be prepared is no error here: it closes admission when it is needed.
    ///
    /// # Durability
    /// Everything below the boundary survives a power cut.
    ///
    /// # Progress
    /// Blocks on a flush, on preparing one file, and on bringing copies up to date.
    pub fn tick(&self) -> Result<(), WalError> {
        // `segments` keeps the error, and appends check it there.
        let _noted = self.flusher().segments.prepare_one();
        self.flusher().refresh_full();
        if let Some(mirror) = &self.core().mirror {
            mirror.catch_up();
            self.flusher().link_copies();
        }
        self.flusher().tell();
        self.flush_wal(true)
    }

    /// Closes the log: flushes, syncs, writes the closing frame, unlocks the directory. Later appends and waits return
    /// `Closed`.
    ///
    /// # Errors
    /// `Poisoned` or `Io`: there is no closing frame, and the next opening recovers. Closing again is no error.
    ///
    /// # Durability
    /// Every appended record survives a power cut, and the next opening finds a clean end.
    ///
    /// # Progress
    /// Blocks on a flush, on the threads of the log, and on writing the file of the cursors.
    pub fn close(&self) -> Result<(), WalError> {
        self.owner.close(true)
    }

    /// Stops using the files without a flush, as if the process had died here. For tests of recovery.
    ///
    /// # Progress
    /// Blocks on the in-flight flush and on the threads of the log.
    pub fn abandon(&self) {
        // Nothing is flushed, so nothing can fail.
        let _nothing = self.owner.close(false);
    }

    /// Writes the empty frame that follows a silence.
    #[cfg(any(test, feature = "lab"))]
    pub(crate) fn heartbeat(&self) -> Result<(), WalError> {
        let permit = self.flusher().begin(&mut self.flusher().queue.lock(), Purpose::Heartbeat);
        permit.map_or(Ok(()), |permit| self.flusher().flush(permit))
    }

    /// Warns of the flush or slot that delays all others, as the preparer and waiting threads do.
    #[cfg(test)]
    pub(crate) fn look_for_stalls(&self) {
        self.flusher().look_for_stalls();
    }

    /// Returns the number of threads that wait for a flush.
    #[cfg(test)]
    pub(crate) fn parked_threads(&self) -> usize {
        self.flusher().queue.lock().parked_threads()
    }

    /// Returns the state of the background flusher.
    #[cfg(test)]
    pub(crate) fn background_state(&self) -> &std::sync::atomic::AtomicU8 {
        &self.flusher().background
    }

    /// Returns the frames written last.
    #[cfg(test)]
    pub(crate) fn recent(&self) -> &crate::flush::recent::Recent {
        &self.flusher().recent
    }

    /// Returns the directory.
    ///
    /// # Progress
    /// Wait-free.
    pub fn dir(&self) -> &Path {
        &self.core().dir
    }
}
