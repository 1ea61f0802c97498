//! `Log` and `Writer`: the public face. It joins the parts and holds no rule of its own beyond their order.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    thread::JoinHandle,
    time::Duration,
};

use collie_base::Lsn;
use collie_env::{Env, FileLock};
use parking_lot::Mutex;

use crate::{
    ConsumerStat, Freed, Level, Mark, Options, ReadMode, Records, Recovered, RingKind, Tail, TailOptions, WalError,
    WriteOptions,
    consumers::Consumers,
    copies::{Copies, CopyStat, Mirror},
    cursor_file::{self, StoredCursors},
    flush::{Flusher, Purpose, Right},
    format::{KIND_DATA, KIND_LAST, KIND_PART, KIND_UNLOGGED, RecordHead, TAG_MAX, piece_head},
    frame_reader::{FrameReader, Running},
    keeper,
    options::RECORD_OVERHEAD,
    recover,
    reserve::{POSITION_MAX, Record, Reserve, Room, Slot, State},
    ring_file::{Home, Life, RingFile},
    segments::Segments,
};

/// Where an append landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Position of the record (of its last piece, when it is long).
    pub start: Lsn,
    /// The position after it: what to wait for.
    pub end: Lsn,
}

/// Figures of a running log.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stat {
    /// Flights that wrote a frame.
    pub frames: u64,
    /// Successful syncs of the log files.
    pub syncs: u64,
    /// Bytes of records written.
    pub stream_bytes: u64,
    /// Bytes of frames written, headers and padding included.
    pub file_bytes: u64,
    /// Appends that found the ring full.
    pub ring_full: u64,
    /// Writers made beyond `wal.slots`.
    pub slotless_writers: u64,
    /// Records flushed from a staging buffer because their writer had not copied them into the ring yet (`help`).
    pub staged_taken: u64,
    /// Files that hold records.
    pub segments: usize,
    /// Files left because a write or sync of them failed.
    pub rewrites: u64,
    /// Files prepared ahead.
    pub spares: usize,
    /// Bytes of frames kept in memory for tails.
    pub recent_bytes: u64,
    /// The consumers by name, and the files that each keeps.
    pub consumers: Vec<ConsumerStat>,
    /// How long the oldest flush on its way has been, if there is one.
    pub oldest_flight: Option<Duration>,
    /// What is wrong now and will stop commits if nobody acts, if anything is.
    pub alarm: Option<String>,
    /// How each copy stands, the log's own directory first; empty for a log in one directory.
    pub copies: Vec<CopyStat>,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) flusher: Flusher,
    home: Home,
    pub(crate) consumers: Consumers,
    pub(crate) options: Options,
    pub(crate) env: Env,
    dir: PathBuf,
    ring_full: AtomicU64,
    slotless_writers: AtomicU64,
    /// Commits counted for `wal.sync_every`; stays 0 without it.
    commits: AtomicU64,
    locks: Mutex<Vec<Option<Arc<dyn FileLock>>>>,
    /// Writes the copies, where there are several.
    mirror: Option<Mirror>,
}

/// Stops the threads when the last `Log` goes.
#[derive(Debug)]
struct Owner {
    core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// An open log. Clones are handles of the same one; the last one to go closes it as well as it can.
#[derive(Clone, Debug)]
pub struct Log {
    owner: Arc<Owner>,
}

impl Log {
    /// Opens the log in `dir`, creating it where there is none.
    ///
    /// # Errors
    /// `InvalidOptions`; `Locked` when somebody has it open; `Damaged`, `Unfinished`, `ForeignLog`, `NewerFormat` as
    /// `wal.recovery_mode` says; `CopiesMissing`, `CopiesDiffer` with several copies; `Io`.
    ///
    /// # Durability
    /// What [`Recovered`] names survives a power cut once this returns.
    pub fn open(env: &Env, dir: &Path, options: Options) -> Result<(Self, Recovered), WalError> {
        options.validate()?;
        let copies = Copies::lock(env, dir, &options.copies)?;
        // Before anything is written.
        let stored = copies.first_of(|dir| StoredCursors::read(&*env.files, dir))?;
        let mut opened = recover::open(env, &copies, &options)?;
        let (env, mirror) = (opened.env, opened.course.mirror.clone());
        if stored.as_ref().is_some_and(|stored| stored.log_id != opened.start.log_id) {
            return Err(WalError::ForeignLog { path: dir.join(cursor_file::FILE_NAME) });
        }
        if opened.recovered.next.get() > POSITION_MAX {
            let next = opened.recovered.next;
            return Err(WalError::options(format!("the positions of this log are used up at {next}: start a new log")));
        }
        // What an earlier life left in a ring is on disk by now.
        let life = Life { env: &env, dir, log_id: opened.start.log_id, incarnation: opened.recovered.incarnation };
        let (home, fallback) = Home::choose(&life, &options)?;
        opened.recovered.notes.extend(fallback);
        opened.recovered.ring = home.kind();
        let reserve = Reserve::new(&home, &options, opened.recovered.next);
        let segments = Segments::new(env.clone(), dir.to_owned(), &options, opened.start);
        let flusher = Flusher::new(&home, reserve, segments, opened.course, &options, &env);
        let core = Arc::new(Core {
            consumers: Consumers::new(&env, &options, &flusher.segments, stored),
            flusher,
            home,
            env,
            dir: dir.to_owned(),
            ring_full: AtomicU64::new(0),
            slotless_writers: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            locks: Mutex::new(copies.into_locks()),
            mirror,
            options,
        });
        core.home.publish();
        // From here on a failure drops `log`, which stops the threads that run already.
        let log = Self { owner: Arc::new(Owner { core, threads: Mutex::new(Vec::new()) }) };
        if log.core().options.threads {
            log.spawn("wal-keeper", |core| keeper::run(&core.flusher, &core.options))?;
            log.spawn("wal-preparer", |core| {
                core.flusher.segments.run_preparer(|| {
                    core.flusher.refresh_full();
                    core.flusher.look_for_stalls();
                });
            })?;
            if let Some(mirror) = &log.core().mirror {
                let core = log.core().clone();
                let started = mirror.start_watch(move || core.flusher.settle_copies());
                started.map_err(|source| WalError::io("start a thread for", dir, source))?;
            }
        }
        if opened.recovered.ending == crate::Ending::Unclean
            && let Some((tag, body)) = log.core().options.first_record.clone()
        {
            log.writer().append(tag, &[&body])?;
        }
        Ok((log, opened.recovered))
    }

    fn spawn(&self, name: &str, run: fn(&Core)) -> Result<(), WalError> {
        let core = self.core().clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&core));
        let thread = thread.map_err(|source| WalError::io("start a thread for", self.dir(), source))?;
        self.owner.threads.lock().push(thread);
        Ok(())
    }

    fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }

    pub(crate) fn flusher(&self) -> &Flusher {
        &self.core().flusher
    }

    /// Makes a writer. Never fails: writers beyond `wal.slots` take turns at two shared slots.
    pub fn writer(&self) -> Writer {
        let slot = self.flusher().reserve.take_slot();
        if slot.is_none() {
            self.core().slotless_writers.fetch_add(1, Ordering::Relaxed);
        }
        Writer { log: self.clone(), slot, waits: true }
    }

    /// Counts a commit and returns how far it has to wait: `level`, or `Disk` when `wal.sync_every` says that it is its
    /// turn. For callers that append and wait by themselves; [`Writer::commit`] and [`Writer::write`] do it. What is not
    /// logged does not count.
    pub fn commit_level(&self, level: Level) -> Level {
        let (core, every) = (self.core(), self.core().options.sync_every);
        if every == 0 || level == Level::None {
            return level;
        }
        let nth = core.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if nth.is_multiple_of(every) { Level::Disk } else { level }
    }

    /// Returns where the ring is: `Private`, or `Shared`: then everything below the boundary survives the process.
    pub fn ring(&self) -> RingKind {
        self.core().home.kind()
    }

    /// Returns the boundary as it was moved last: every record below is complete in memory. One Acquire load; with a
    /// lock-free protocol an append that has returned may not be below it yet: wait for [`Mark::Boundary`].
    pub fn boundary(&self) -> Lsn {
        self.flusher().mark(Mark::Boundary)
    }

    /// Returns the next free position.
    pub fn glsn(&self) -> Lsn {
        self.flusher().reserve.next()
    }

    /// Returns what the kernel has: every byte below.
    pub fn written(&self) -> Lsn {
        self.flusher().mark(Mark::Written)
    }

    /// Returns what is on disk: every byte below.
    pub fn durable(&self) -> Lsn {
        self.flusher().mark(Mark::Durable)
    }

    /// Returns whether `mark` has reached `lsn`. For the boundary a look at every slot in use, unless it is known already.
    ///
    /// # Progress
    /// Wait-free, but for the boundary's `fetch_max` (lock-free).
    pub fn is_reached(&self, mark: Mark, lsn: Lsn) -> bool {
        let flusher = self.flusher();
        flusher.mark(mark) >= lsn || (mark == Mark::Boundary && flusher.reserve.advance() >= lsn)
    }

    /// Blocks until `mark` reaches `lsn`, which an append of this log returned.
    ///
    /// # Progress
    /// Leads a flush when nobody does, else parks until one ends.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`: it never will.
    pub fn wait(&self, mark: Mark, lsn: Lsn) -> Result<(), WalError> {
        if mark == Mark::Boundary {
            self.flush_soon();
        }
        self.flusher().wait(mark, lsn)
    }

    /// Returns a future that is ready once `mark` reaches `lsn`. Its first poll starts a flush on the keeper. Futures of
    /// one mark complete in the order of their positions, and one thread may have thousands in flight:
    ///
    /// ```
    /// # use collie_wal::{Log, Mark, Options};
    /// # use std::{future::Future, pin::pin, sync::Arc, task::{Context, Poll, Wake}, thread::Thread};
    /// # struct Unpark(Thread);
    /// # impl Wake for Unpark { fn wake(self: Arc<Self>) { self.0.unpark() } }
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let waker = Arc::new(Unpark(std::thread::current())).into();
    /// #     let mut future = pin!(future);
    /// #     loop {
    /// #         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
    /// #             Poll::Ready(output) => return output,
    /// #             Poll::Pending => std::thread::park(),
    /// #         }
    /// #     }
    /// # }
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
    /// Dropping it forgets the waiter and nothing else.
    pub fn reached(&self, mark: Mark, lsn: Lsn) -> Reached {
        Reached { core: self.core().clone(), mark, lsn, id: None }
    }

    /// Takes the right to flush now on this thread, when records wait to become durable and nobody flushes.
    pub fn try_lead(&self) -> Option<Lead> {
        let flusher = self.flusher();
        if flusher.mark(Mark::Durable) >= flusher.reserve.advance() {
            return None;
        }
        let right = flusher.begin(&mut flusher.queue.lock(), Purpose::Sync)?;
        Some(Lead { core: self.core().clone(), right: Some(right) })
    }

    /// Has everything appended so far durable within `wal.flush_delay`, without waiting for it. Costs a fence and a
    /// load, unless the keeper sleeps.
    pub fn flush_soon(&self) {
        self.flusher().poke(false);
    }

    /// Makes everything below the boundary `written`, or `durable` when `sync`.
    ///
    /// # Errors
    /// As [`Log::wait`].
    pub fn flush_wal(&self, sync: bool) -> Result<(), WalError> {
        let mark = if sync { Mark::Durable } else { Mark::Written };
        self.flusher().wait(mark, self.flusher().reserve.advance())
    }

    /// Makes everything `written` durable; what is only in the ring stays there.
    ///
    /// # Errors
    /// As [`Log::wait`].
    pub fn sync_wal(&self) -> Result<(), WalError> {
        self.flusher().wait_leading(Mark::Durable, self.written(), Purpose::SyncOnly)
    }

    /// Reads the records at or above `from` up to what is durable now, by file reads: see [`Log::read_with`].
    pub fn read(&self, from: Lsn) -> Records {
        self.records(from, ReadMode::File)
    }

    /// Reads the records at or above `from` up to what is durable now. A `from` below the oldest record reads from there.
    ///
    /// # Errors
    /// None yet; files are opened as the iterator comes to them.
    ///
    /// # Progress
    /// Takes three short mutexes; the log goes on while the iterator reads.
    pub fn read_with(&self, from: Lsn, mode: ReadMode) -> Result<Records, WalError> {
        Ok(self.records(from, mode))
    }

    fn records(&self, from: Lsn, mode: ReadMode) -> Records {
        let core = self.core();
        // In this order: what is durable lies in the segments that are listed afterwards.
        let end = core.flusher.recent.durable_end(self.durable());
        let (limit, holds) = (end.lsn, core.flusher.segments.holds.clone());
        let (hold, spans) = core.flusher.segments.hold_from(from, format!("a mapped reader from {from}"), None);
        let running = Running { holds, end, mapped: (mode == ReadMode::Map).then_some(hold) };
        let frames = FrameReader::new(core.env.files.clone(), spans, from, Some(running));
        Records::new(frames, from, limit, core.options.max_record_bytes)
    }

    /// Follows the log as the consumer `name`: yields each record at or above its cursor once it is durable, and keeps the
    /// files it needs, up to its bound. The cursor stays when the tail goes: it keeps files until the consumer comes back,
    /// falls behind its bound, or is removed.
    ///
    /// # Errors
    /// `CursorLost` when records at or above the cursor were freed, or it fell behind its bound: place it anew with
    /// [`TailOptions::from`]. `InvalidOptions`: the name, the bound, or another tail has the cursor. `Io`, `Closed`.
    ///
    /// # Durability
    /// The cursor is on disk once this returns.
    ///
    /// # Progress
    /// Writes and syncs a small file.
    pub fn tail(&self, name: &str, options: TailOptions) -> Result<Tail, WalError> {
        Tail::new(self.core().clone(), name, &options)
    }

    /// Forgets the consumer `name` and its cursor; returns whether there was one.
    ///
    /// # Errors
    /// `InvalidOptions` while a tail has it; `Io`: it may come back after a crash.
    ///
    /// # Durability
    /// Gone once this returns.
    pub fn remove_consumer(&self, name: &str) -> Result<bool, WalError> {
        let (core, segments) = (self.core(), &self.flusher().segments);
        let removed = core.consumers.remove(segments, name);
        self.flusher().refresh_full();
        removed
    }

    /// Frees whole files whose records all lie below `lsn` and below what is held, oldest first, but never the last two.
    /// Returns where the log starts now, and who holds the rest.
    ///
    /// # Errors
    /// `Io`; what was freed before stays freed.
    ///
    /// # Durability
    /// What is freed is gone once this returns, and after a crash too.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<Freed, WalError> {
        let segments = &self.flusher().segments;
        // So that consumers let go of all that they have passed.
        self.core().consumers.save(segments)?;
        segments.free_before(lsn.min(self.durable()))
    }

    /// Returns figures. Waits while a frame is put together or a file is turned.
    pub fn stat(&self) -> Stat {
        let (counts, syncs) = self.flusher().counts();
        let (segments, spares) = self.flusher().segments.counts();
        Stat {
            frames: counts.frames,
            syncs,
            stream_bytes: counts.stream_bytes,
            file_bytes: counts.file_bytes,
            rewrites: counts.rewrites,
            ring_full: self.core().ring_full.load(Ordering::Relaxed),
            slotless_writers: self.core().slotless_writers.load(Ordering::Relaxed),
            staged_taken: self.flusher().reserve.staged_taken(),
            segments,
            spares,
            recent_bytes: self.flusher().recent.held_bytes(),
            consumers: self.core().consumers.stats(&self.flusher().segments.spans(), self.durable()),
            oldest_flight: self.flusher().oldest_flight_age(),
            alarm: self.flusher().segments.alarm().or_else(|| self.flusher().segments.holds.closed()),
            copies: self.core().mirror.as_ref().map_or_else(Vec::new, Mirror::standing),
        }
    }

    /// Does the keeper's and the preparer's work once, and brings back copies that were left out; for logs without threads.
    ///
    /// # Errors
    /// As [`Log::wait`]. A file that could not be prepared is no error here: it closes admission when it matters.
    pub fn tick(&self) -> Result<(), WalError> {
        // Noted in `segments`, where appends see it.
        let _noted = self.flusher().segments.prepare_one();
        self.flusher().refresh_full();
        if let Some(mirror) = &self.core().mirror {
            mirror.catch_up();
            self.flusher().settle_copies();
        }
        self.flush_wal(true)
    }

    /// Closes: flushes, syncs, marks the end, frees the directory. Later appends and waits return `Closed`.
    ///
    /// # Errors
    /// `Poisoned` or `Io`: the end is not marked, and the next open recovers. Closing again is no error.
    pub fn close(&self) -> Result<(), WalError> {
        self.owner.close(true)
    }

    /// Stops using the files without flushing anything, as if the process had died here. For tests of recovery.
    pub fn abandon(&self) {
        // Nothing is flushed, so nothing can fail.
        let _nothing = self.owner.close(false);
    }

    /// Writes the empty frame that follows a silence.
    #[cfg(any(test, feature = "lab"))]
    pub(crate) fn heartbeat(&self) -> Result<(), WalError> {
        let right = self.flusher().begin(&mut self.flusher().queue.lock(), Purpose::Heartbeat);
        right.map_or(Ok(()), |right| self.flusher().fly(right))
    }

    /// Says what holds everybody up, as the preparer and whoever waits do by themselves.
    #[cfg(test)]
    pub(crate) fn look_for_stalls(&self) {
        self.flusher().look_for_stalls();
    }

    /// Returns how many threads wait for a flight.
    #[cfg(test)]
    pub(crate) fn parked_threads(&self) -> usize {
        self.flusher().queue.lock().parked_threads()
    }

    /// Returns what the keeper is doing.
    #[cfg(test)]
    pub(crate) fn keeper_state(&self) -> &std::sync::atomic::AtomicU8 {
        &self.flusher().keeper
    }

    /// Returns the frames written last.
    #[cfg(test)]
    pub(crate) fn recent(&self) -> &crate::recent::Recent {
        &self.flusher().recent
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.core().dir
    }
}

impl Owner {
    fn close(&self, orderly: bool) -> Result<(), WalError> {
        let flusher = &self.core.flusher;
        flusher.reserve.stop(State::Closed);
        let outcome = if orderly { self.finish() } else { Ok(()) };
        flusher.end(State::Closed);
        // Waits for a flight on its way; the next one sees that the log is closed.
        flusher.settle();
        flusher.queue.lock().stop = true;
        flusher.keeper_poked.notify_one();
        flusher.segments.stop();
        let me = std::thread::current().id();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A waker may drop the last handle on the keeper itself: that thread ends by itself.
            if thread.thread().id() != me && thread.join().is_err() {
                return Err(WalError::Poisoned { durable: flusher.mark(Mark::Durable) });
            }
        }
        let stored = self.core.consumers.close(&flusher.segments, orderly);
        if let Some(mirror) = &self.core.mirror {
            mirror.stop();
        }
        self.core.locks.lock().clear();
        outcome.and(stored)
    }

    /// Flushes and writes the closing frame, once.
    fn finish(&self) -> Result<(), WalError> {
        let flusher = &self.core.flusher;
        if flusher.queue.lock().state == State::Closed {
            return Ok(());
        }
        // Nothing is reserved any more; what was is on its way through the ring.
        flusher.wait(Mark::Durable, flusher.reserve.next())?;
        loop {
            let right = flusher.begin(&mut flusher.queue.lock(), Purpose::Close);
            match right {
                Some(right) => {
                    flusher.fly(right)?;
                    // Left behind it does no harm: the next open sees the closing frame.
                    let _removed = self.core.home.file().map(RingFile::remove);
                    return Ok(());
                }
                None if flusher.queue.lock().state != State::Open => {
                    return Err(flusher.refusal(State::Poisoned));
                }
                // Only a flight without data can be on its way now: it ends by itself.
                None => std::thread::yield_now(),
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Nobody is left to hear of it; the next open recovers.
        let _best_effort = self.close(true);
    }
}

/// The right to run one flush; dropping it unused gives it back.
#[derive(Debug)]
#[must_use]
pub struct Lead {
    core: Arc<Core>,
    right: Option<Right>,
}

impl Lead {
    /// Writes and syncs everything gathered so far (up to one frame) and wakes whoever waits for it.
    ///
    /// # Errors
    /// `Io`: a write or sync failed, writing to the next file failed too, and the log is poisoned.
    pub fn run(mut self) -> Result<(), WalError> {
        let right = self.right.take().expect("taken here and in drop only");
        self.core.flusher.fly(right)
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if let Some(right) = self.right.take() {
            self.core.flusher.give_up(right);
        }
    }
}

/// The future of [`Log::reached`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Reached {
    core: Arc<Core>,
    mark: Mark,
    lsn: Lsn,
    id: Option<u64>,
}

impl Future for Reached {
    type Output = Result<(), WalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let flusher = &this.core.flusher;
        if flusher.mark(this.mark) >= this.lsn {
            if this.mark == Mark::Boundary {
                flusher.poke(false);
            }
            return Poll::Ready(Ok(()));
        }
        assert!(flusher.reserve.has_reserved(this.lsn), "waits are for records that were appended");
        match flusher.register(this.mark, this.lsn, &mut this.id, context.waker()) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.core.flusher.forget(self.mark, self.lsn, id);
        }
    }
}

/// Appends records. Cheap to keep per thread; `Send`, used by one thread at a time.
#[derive(Debug)]
pub struct Writer {
    log: Log,
    /// Its own; without one it takes a turn at a shared slot for each record.
    slot: Option<Slot>,
    /// Whether an append waits while the ring is full; `false` inside a write with `no_slowdown`.
    waits: bool,
}

impl Writer {
    /// Appends the concatenation of `parts` as one record with `tag` (at most 31), of any size up to `wal.max_record`.
    ///
    /// # Durability
    /// None yet: wait for `end`.
    ///
    /// # Progress
    /// Lock-free protocols: wait-free until the ring is full, then blocks on a flush. The oracle blocks for one copy by
    /// another appender. A writer beyond `wal.slots` also waits for its turn.
    ///
    /// # Errors
    /// `TooLarge`, `Full`: nothing was appended. `Poisoned`, `Closed`: nothing can be; of a record larger than
    /// `wal.chunk_size` some pieces may have been, which no reader yields.
    #[inline]
    pub fn append(&mut self, tag: u8, parts: &[&[u8]]) -> Result<Appended, WalError> {
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let options = &self.log.core().options;
        if bytes > options.max_record_bytes {
            return Err(WalError::TooLarge { bytes, limit_bytes: options.max_record_bytes });
        }
        if bytes > options.chunk_bytes {
            return self.append_pieces(tag, &parts.concat());
        }
        let head = RecordHead::new(usize::try_from(bytes).expect("at most a piece"), KIND_DATA, tag);
        self.append_record(&Record::new(head, parts), |_| ())
    }

    /// Appends one record of at most `wal.chunk_size` and calls `publish` with its position before the boundary passes
    /// it. `publish` runs where a stall holds everybody's boundary back: it must not block, allocate, lock or append. A
    /// panic in it leaves a VOID record, which no reader yields, and goes on to the caller.
    ///
    /// # Errors
    /// As [`Writer::append`]; `publish` was not called then.
    pub fn append_with(&mut self, tag: u8, bytes: &[u8], publish: impl FnOnce(Lsn)) -> Result<Appended, WalError> {
        let limit_bytes = self.log.core().options.chunk_bytes;
        if bytes.len() as u64 > limit_bytes {
            return Err(WalError::TooLarge { bytes: bytes.len() as u64, limit_bytes });
        }
        let head = RecordHead::new(bytes.len(), KIND_DATA, tag);
        self.append_record(&Record::new(head, &[bytes]), publish)
    }

    /// Appends a marker for a write that is not logged: it has a position in the order of commits, and readers yield a
    /// hole of kind [`Unlogged`](crate::RecordKind::Unlogged) with `note`, at most 6 bytes (which family it was, say).
    /// `publish` as in [`Writer::append_with`].
    ///
    /// # Durability
    /// None, whatever is waited for: only the marker is.
    ///
    /// # Errors
    /// As [`Writer::append_with`].
    pub fn append_unlogged(&mut self, tag: u8, note: &[u8], publish: impl FnOnce(Lsn)) -> Result<Appended, WalError> {
        if note.len() as u64 > UNLOGGED_NOTE_MAX {
            return Err(WalError::TooLarge { bytes: note.len() as u64, limit_bytes: UNLOGGED_NOTE_MAX });
        }
        let head = RecordHead::new(note.len(), KIND_UNLOGGED, tag);
        self.append_record(&Record::new(head, &[note]), publish)
    }

    /// Appends, then waits for `level`; with [`Level::None`] a marker without a note is all that is appended. Counts for
    /// `wal.sync_every`.
    ///
    /// # Errors
    /// As [`Writer::append`] and [`Log::wait`].
    pub fn commit(&mut self, tag: u8, bytes: &[u8], level: Level) -> Result<Appended, WalError> {
        let appended = match level {
            Level::None => self.append_unlogged(tag, &[], |_| ())?,
            _ => self.append(tag, &[bytes])?,
        };
        match self.log.commit_level(level) {
            Level::None | Level::Memory => {
                self.wait_boundary(appended.end)?;
                self.log.flush_soon();
            }
            Level::Process if self.log.ring() == RingKind::Shared => {
                self.wait_boundary(appended.end)?;
                self.log.flush_soon();
            }
            Level::Process => {
                self.log.wait(Mark::Written, appended.end)?;
                self.log.flush_soon();
            }
            Level::Disk => self.log.wait(Mark::Durable, appended.end)?,
        }
        Ok(appended)
    }

    /// [`Writer::commit`] with RocksDB's options.
    ///
    /// # Errors
    /// As [`Writer::commit`]; `InvalidOptions` for `sync` with `disable_wal`; `Full` for `no_slowdown` when the ring is
    /// full.
    pub fn write(&mut self, tag: u8, bytes: &[u8], options: WriteOptions) -> Result<Appended, WalError> {
        let level = options.level(self.log.ring())?;
        self.waits = !options.no_slowdown;
        let committed = self.commit(tag, bytes, level);
        self.waits = true;
        committed
    }

    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Waits for the boundary at the end of this writer's last record.
    fn wait_boundary(&self, end: Lsn) -> Result<(), WalError> {
        let (flusher, Some(slot)) = (self.log.flusher(), &self.slot) else {
            return self.log.flusher().wait(Mark::Boundary, end);
        };
        flusher.reserve.wait_own(slot, end).map_err(|state| flusher.refusal(state))
    }

    #[cold]
    #[inline(never)]
    fn append_pieces(&mut self, tag: u8, body: &[u8]) -> Result<Appended, WalError> {
        let (core, waits) = (self.log.core(), self.waits);
        let piece_bytes = usize::try_from(core.options.chunk_bytes).expect("at most 1 MiB") - 16;
        let (count, mut last) = (body.len().div_ceil(piece_bytes), None);
        // Readers join the pieces by the slot's number, so a shared slot is kept until the last.
        let mut turn = None;
        let slot = match &mut self.slot {
            Some(slot) => slot,
            None => turn.insert(core.flusher.reserve.shared_slot()).slot(),
        };
        if !waits {
            // For the whole of it: once begun it goes on.
            core.look_for_room_in_the_ring(body.len() as u64 + count as u64 * RECORD_OVERHEAD)?;
        }
        for (number, piece) in body.chunks(piece_bytes).enumerate() {
            let kind = if number + 1 == count { KIND_LAST } else { KIND_PART };
            let within = piece_head(slot.number(), number as u64);
            let head = RecordHead::new(within.len() + piece.len(), kind, tag);
            match core.append(slot, &Record::new(head, &[within.as_slice(), piece]), |_| ()) {
                Ok(appended) => last = Some(appended),
                Err(error) => {
                    if number > 0 {
                        core.give_up_pieces(slot, number as u64, tag);
                    }
                    return Err(error);
                }
            }
        }
        Ok(last.expect("a body above one piece has pieces"))
    }

    #[inline]
    fn append_record<F: FnOnce(Lsn)>(&mut self, record: &Record<'_>, publish: F) -> Result<Appended, WalError> {
        let core = &self.log.owner.core;
        if !self.waits {
            core.look_for_room_in_the_ring(record.bytes())?;
        }
        match &mut self.slot {
            Some(slot) => core.append(slot, record, publish),
            None => core.append_in_turn(record, publish),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.log.flusher().reserve.give_back(slot);
        }
    }
}

/// Longest note of a marker: the marker takes 2 to 8 bytes in all.
const UNLOGGED_NOTE_MAX: u64 = 6;

impl Core {
    #[inline]
    fn append<F: FnOnce(Lsn)>(&self, slot: &mut Slot, record: &Record<'_>, publish: F) -> Result<Appended, WalError> {
        if self.flusher.full.load(Ordering::Acquire) != 0 {
            self.look_for_room_on_disk()?;
        }
        let start = self.flusher.reserve.append(slot, self, record, publish)?;
        let end = start.plus(record.bytes());
        if end.bytes_since(self.flusher.durable.load()) >= self.options.flush_bytes {
            self.flusher.poke(true);
        }
        Ok(Appended { start, end })
    }

    /// Appends through a shared slot.
    #[cold]
    #[inline(never)]
    fn append_in_turn<F: FnOnce(Lsn)>(&self, record: &Record<'_>, publish: F) -> Result<Appended, WalError> {
        self.append(self.flusher.reserve.shared_slot().slot(), record, publish)
    }

    /// Refuses an append that would have to wait for a flush. Another's append may take the room in between: then it does.
    #[cold]
    #[inline(never)]
    fn look_for_room_in_the_ring(&self, bytes: u64) -> Result<(), WalError> {
        let end = self.flusher.reserve.next().plus(bytes);
        if end.bytes_since(self.flusher.durable.load()) <= self.options.ring_bytes {
            return Ok(());
        }
        self.ring_full.fetch_add(1, Ordering::Relaxed);
        let until = Lsn::new(end.get() - self.options.ring_bytes);
        Err(WalError::Full { pinned_by: format!("the ring, whose bytes up to {until} wait for the disk") })
    }

    /// Ends a payload of which `pieces` were appended and no more will be, with a last piece out of turn: readers drop the
    /// payload, and no longer start at its first piece. Otherwise a consumer whose bound refuses the rest of a record would
    /// keep that record's files, stay at its bound, and refuse for ever.
    #[cold]
    fn give_up_pieces(&self, slot: &mut Slot, pieces: u64, tag: u8) {
        let within = piece_head(slot.number(), pieces + 1);
        let head = RecordHead::new(within.len(), KIND_LAST, tag);
        // A log that has stopped needs no end. It is let in without a look at the room on disk: it is a few bytes, and what
        // was reserved has room.
        let _unless_stopped = self.flusher.reserve.append(slot, self, &Record::new(head, &[&within]), |_| ());
    }

    /// Refuses an append while the disk, or the bound on files, has no room for it.
    #[cold]
    #[inline(never)]
    fn look_for_room_on_disk(&self) -> Result<(), WalError> {
        self.flusher.refresh_full();
        let state = self.flusher.queue.lock().state;
        if state != State::Open {
            return Err(self.flusher.refusal(state));
        }
        match self.flusher.segments.full() {
            Some(pinned_by) => Err(WalError::Full { pinned_by }),
            None => Ok(()),
        }
    }
}

impl Room for Core {
    fn durable(&self) -> Lsn {
        self.flusher.durable.load()
    }

    #[cold]
    #[inline(never)]
    fn wait_durable(&self, until: Lsn) -> Result<(), WalError> {
        self.ring_full.fetch_add(1, Ordering::Relaxed);
        self.flusher.wait(Mark::Durable, until)
    }

    fn has_stopped(&self) -> bool {
        self.flusher.queue.lock().state != State::Open
    }

    fn poison(&self) {
        self.flusher.poison();
    }

    #[cold]
    #[inline(never)]
    fn refusal(&self, state: State) -> WalError {
        self.flusher.refusal(state)
    }
}

const _: () = assert!(TAG_MAX == 31, "Writer::append says so");
