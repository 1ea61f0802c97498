//! `Tail`: follows a log: yields every record from a position on, in order, once it is durable, and then waits.
//!
//! Takes frames from memory while it keeps up (`Recent`) and from the files when it does not; the caller sees no
//! difference. Never reads the ring, never asks for a flush, never holds up a commit.
//!
//! # Invariants
//! - C1. `position` is the end of the last frame taken, and the next frame taken starts there or, at a LINK that jumps,
//!   behind it: no record is skipped or yielded twice, whichever source it comes from (log.md L12).
//! - C2. Nothing at or above `durable` is yielded.
//! - C3. A record that was begun before the position and ends behind it is yielded: reading starts early enough, at the
//!   cursor's restart position, or in the file that holds the position when there is no cursor yet.
//!
//! Checked by `tail_tests`.

use std::{
    future::Future,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use collie_base::Lsn;

use crate::{
    Record, WalError,
    assemble::Assembler,
    consumers::Attached,
    core::Core,
    frame_reader::{FrameReader, Running},
    recent::HeldFrame,
    reserve::State,
    source::FrameSource,
};

/// What happens when a consumer has fallen behind by its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LagPolicy {
    /// Block: appends are refused with `Full`, which names the consumer, until it has moved on or was removed. For
    /// consumers that must see everything, such as an archive.
    Hold,
    /// Drop: the consumer loses its place, hears `CursorLost`, and the files it kept may go. Never stops an append.
    #[default]
    Invalidate,
    /// Read from files: the consumer keeps no file any more, reads on while they last, and hears `CursorLost` only when
    /// one that it needs is gone. Below the bound it keeps files again. Never stops an append.
    Files,
}

/// Where a [`Tail`] starts, and how far it may fall behind.
#[derive(Clone, Debug, Default)]
pub struct TailOptions {
    pub(crate) from: Option<Lsn>,
    pub(crate) policy: LagPolicy,
    pub(crate) bound_segments: Option<u32>,
    pub(crate) bound_bytes: Option<u64>,
}

impl TailOptions {
    /// Starts with the first record at or above `from`, wherever the cursor of that name stood. Anything below the first
    /// position of a log means that one.
    pub fn from(from: Lsn) -> Self {
        Self { from: Some(from), ..Self::default() }
    }

    /// Goes on where the cursor of that name stands; a new one starts with the oldest record.
    pub fn resume() -> Self {
        Self::default()
    }

    /// Says what happens at the bound. Default [`LagPolicy::Invalidate`].
    #[must_use]
    pub fn policy(self, policy: LagPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Bounds the lag in log files: as many may be begun behind the one that holds the cursor, less one. At least 1, and
    /// below `wal.max_segments` by the spares and a few. Default a quarter of `wal.max_segments`.
    #[must_use]
    pub fn bound_segments(self, segments: u32) -> Self {
        Self { bound_segments: Some(segments), ..self }
    }

    /// Bounds the lag in bytes of records besides, counted up to the beginning of the file being written. Default: by
    /// files only.
    #[must_use]
    pub fn bound_bytes(self, bytes: u64) -> Self {
        Self { bound_bytes: Some(bytes), ..self }
    }
}

/// Follows a log; made by [`Log::tail`](crate::Log::tail). Does not keep the log open.
#[derive(Debug)]
pub struct Tail {
    core: Arc<Core>,
    name: String,
    /// Where yielding begins, and reading.
    from: Lsn,
    read_from: Lsn,
    /// The cursor: everything below was consumed.
    advanced: Lsn,
    position: Lsn,
    /// Everything below may be taken; what is durable above it is looked at when this is reached.
    limit: Lsn,
    assembler: Assembler,
    /// The files, while it reads from them.
    frames: Option<FrameReader>,
    /// File and offset behind the last frame taken.
    behind: Option<(Arc<Path>, u64)>,
}

impl Tail {
    pub(crate) fn new(core: Arc<Core>, name: &str, options: &TailOptions) -> Result<Self, WalError> {
        let Attached { lsn, restart } = core.consumers.attach(&core.flusher.segments, name, options)?;
        core.flusher.recent.attach();
        let max_record = usize::try_from(core.options.max_record_bytes).unwrap_or(usize::MAX);
        let tail = Self {
            core,
            name: name.to_owned(),
            from: lsn,
            read_from: restart,
            advanced: lsn,
            position: Lsn::ZERO,
            limit: Lsn::ZERO,
            assembler: Assembler::new(lsn, max_record),
            frames: None,
            behind: None,
        };
        // It may have been at its bound, and was moved.
        tail.core.flusher.refresh_full();
        Ok(tail)
    }

    /// Returns the name it was made with.
    ///
    /// # Progress
    /// Wait-free.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how far it has come: every record below was yielded. What to give [`Tail::advance`] once all of them are
    /// dealt with.
    ///
    /// # Progress
    /// Wait-free.
    pub fn position(&self) -> Lsn {
        self.assembler.front().unwrap_or(self.position.max(self.from))
    }

    /// Moves the cursor up to `lsn`: every record below is dealt with. Files that only they needed may go.
    ///
    /// # Errors
    /// `CursorLost`: it fell behind its bound. `Io`, `Closed`: the cursor could not be stored; it has moved in memory.
    /// `InvalidOptions`: `lsn` is above [`Tail::position`].
    ///
    /// # Durability
    /// The cursor is stored when it comes to another log file, by [`Log::truncate_before`](crate::Log::truncate_before),
    /// when the tail is dropped and when the log is closed. After a crash, records above what is stored come again.
    ///
    /// # Progress
    /// Short mutexes; once per log file it also blocks on writing and syncing a small file, on this thread.
    pub fn advance(&mut self, lsn: Lsn) -> Result<(), WalError> {
        let position = self.position();
        if lsn > position {
            return Err(WalError::options(format!(
                "consumer {} cannot advance to {lsn}: it has come to {position}",
                self.name
            )));
        }
        if lsn <= self.advanced {
            return Ok(());
        }
        let restart = self.assembler.restart(lsn);
        self.advanced = lsn;
        let flusher = &self.core.flusher;
        let moved = self.core.consumers.advance(&flusher.segments, &self.name, lsn, restart);
        flusher.refresh_full();
        moved
    }

    /// Returns the next record if one is durable, without waiting.
    ///
    /// # Errors
    /// `CursorLost`: the next records were freed. `Damaged`: they do not read back. `Io`. `Poisoned`, `Closed`: every
    /// durable record was yielded and no other will be.
    ///
    /// # Durability
    /// What is yielded is durable.
    ///
    /// # Progress
    /// Short mutexes; blocks on reading files when it has fallen behind what is in memory, on nothing else.
    pub fn try_next(&mut self) -> Result<Option<Record>, WalError> {
        loop {
            if let Some(record) = self.assembler.next() {
                return Ok(Some(record));
            }
            if !self.take_frame()? {
                // In this order: what became durable before the end is yielded before it.
                let state = self.core.flusher.queue.lock().state;
                if state == State::Open {
                    return Ok(None);
                }
                if !self.take_frame()? {
                    return Err(self.core.flusher.refusal(state));
                }
            }
        }
    }

    /// Returns the next record, waiting until one is durable.
    ///
    /// # Errors
    /// As [`Tail::try_next`].
    ///
    /// # Durability
    /// What is yielded is durable.
    ///
    /// # Progress
    /// Blocks on a flush by somebody else, and asks for none; on reading files as [`Tail::try_next`].
    #[expect(clippy::should_implement_trait, reason = "a tail does not end, it fails or waits")]
    pub fn next(&mut self) -> Result<Record, WalError> {
        loop {
            if let Some(record) = self.try_next()? {
                return Ok(record);
            }
            self.core.flusher.watch.wait(|| self.has_news());
        }
    }

    /// Returns a future of the next record. A poll may read files, as [`Tail::try_next`] does.
    ///
    /// # Errors
    /// As [`Tail::try_next`].
    ///
    /// # Cancel safety
    /// Dropping it loses no record: the next call yields what this one would have.
    ///
    /// # Progress
    /// Wait-free. A poll of the future blocks on what [`Tail::try_next`] does.
    pub fn next_async(&mut self) -> NextRecord<'_> {
        NextRecord { tail: self, id: None }
    }

    /// Returns whether waiting is over: something new is durable, or the log has ended.
    fn has_news(&self) -> bool {
        let flusher = &self.core.flusher;
        let end = flusher.recent.durable_end(flusher.durable.load()).lsn;
        self.position.max(self.limit) < end || flusher.queue.lock().state != State::Open
    }

    /// Takes the next durable frame; `false` when there is none.
    fn take_frame(&mut self) -> Result<bool, WalError> {
        self.assembler.check()?;
        let flusher = &self.core.flusher;
        if self.core.consumers.is_lost(&self.name) {
            return Err(WalError::CursorLost { oldest: flusher.segments.holds.start() });
        }
        let durable = flusher.durable.load();
        if self.position >= durable {
            return Ok(false);
        }
        let held = self.behind.as_ref().and_then(|_| flusher.recent.at(self.position, durable));
        if let Some(held) = held.filter(|held| held.start == self.position) {
            self.frames = None;
            return self.take_held(&held, durable).map(|()| true);
        }
        if self.frames.is_none() || self.position >= self.limit || self.limit == Lsn::ZERO {
            self.go_to_files(durable)?;
        }
        let Some(frames) = &mut self.frames else { return Ok(false) };
        let Some((frame, place)) = frames.next_frame(self.limit)? else {
            // Between here and the limit positions jump.
            frames.reach(self.limit);
            self.position = self.position.max(self.limit);
            return Ok(false);
        };
        self.assembler.take(&frame, &place, self.limit)?;
        self.behind = Some((place.path.clone(), frame.next_offset));
        self.position = frame.header.end();
        Ok(true)
    }

    fn take_held(&mut self, held: &HeldFrame, durable: Lsn) -> Result<(), WalError> {
        let (mut source, place) = (held, &held.place);
        let frame = source.frame_at(place.offset, None)?.map_err(|bad| WalError::Damaged {
            lsn: held.start,
            path: place.path.to_path_buf(),
            offset: place.offset,
            stored: bad.stored,
            computed: bad.computed,
            durable,
        })?;
        self.assembler.take(&frame, place, durable)?;
        self.behind = Some((place.path.clone(), held.next_offset));
        self.position = held.end;
        Ok(())
    }

    /// Reads from files up to what is durable now: begins to, or goes on.
    fn go_to_files(&mut self, durable: Lsn) -> Result<(), WalError> {
        let (flusher, holds) = (&self.core.flusher, &self.core.flusher.segments.holds);
        // In this order: what is durable lies in the segments that are listed afterwards.
        let end = flusher.recent.durable_end(durable);
        self.limit = end.lsn;
        let spans = flusher.segments.spans();
        if let Some(frames) = &mut self.frames {
            return frames.follow(spans, end);
        }
        let running = Running { holds: holds.clone(), end, mapped: None };
        let from = self.position.max(self.read_from);
        let mut frames = FrameReader::new(self.core.env.files.clone(), spans, from, Some(running));
        if let Some((path, offset)) = &self.behind {
            frames.go_on_at(path, *offset, self.position)?;
        }
        self.frames = Some(frames);
        Ok(())
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.core.flusher.recent.detach();
        self.core.consumers.detach(&self.core.flusher.segments, &self.name);
    }
}

/// The future of [`Tail::next_async`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct NextRecord<'a> {
    tail: &'a mut Tail,
    id: Option<u64>,
}

impl Future for NextRecord<'_> {
    type Output = Result<Record, WalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { tail, id } = &mut *self;
        loop {
            match tail.try_next() {
                Ok(Some(record)) => return Poll::Ready(Ok(record)),
                Err(error) => return Poll::Ready(Err(error)),
                Ok(None) => {}
            }
            if !tail.core.flusher.watch.register(id, context.waker(), || tail.has_news()) {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for NextRecord<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.tail.core.flusher.watch.forget(id);
        }
    }
}
