//! `Tail`: follows a log: yields every record from a position on, in order, once it is durable, and then waits.
//!
//! It makes records of the frames that a `FrameTail` takes, from memory or from files. It never asks for a flush and
//! never holds up a commit.
//!
//! # Invariants
//! - C1. No record is skipped or yielded twice (`frame_tail` Q1).
//! - C2. Nothing at or above `durable` is yielded (`frame_tail` Q2).
//! - C3. A record that was begun before the position and ends behind it is yielded: reading starts early enough, at the
//!   cursor's restart position, or in the file that holds the position if there is no cursor yet.
//!
//! Checked by `tests/tail.rs`.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use collie_base::Lsn;

use crate::consumers::tail_options::TailOptions;
use crate::{
    Record, WalError, consumers::Attached, core::Core, read::assemble::Assembler, stream::frame_tail::FrameTail,
};

/// A reader that follows a log, made by [`Log::tail`](crate::Log::tail). It does not keep the log open.
#[derive(Debug)]
pub struct Tail {
    frames: FrameTail,
    /// Where yielding begins.
    from: Lsn,
    /// The cursor: everything below was consumed.
    advanced: Lsn,
    assembler: Assembler,
}

impl Tail {
    pub(crate) fn new(core: Arc<Core>, name: &str, options: &TailOptions) -> Result<Self, WalError> {
        let max_record = usize::try_from(core.options.max_record_bytes).unwrap_or(usize::MAX);
        let (frames, Attached { lsn, .. }) = FrameTail::new(core, name, options)?;
        Ok(Self { frames, from: lsn, advanced: lsn, assembler: Assembler::new(lsn, max_record) })
    }

    /// Returns the name that it was made with.
    ///
    /// # Progress
    /// Wait-free.
    pub fn name(&self) -> &str {
        self.frames.name()
    }

    /// Returns how far it has come: every record below was yielded. This is the position for [`Tail::advance`] once all
    /// of them are processed.
    ///
    /// # Progress
    /// Wait-free.
    pub fn position(&self) -> Lsn {
        self.assembler.front().unwrap_or(self.frames.position().max(self.from))
    }

    /// Moves the cursor up to `lsn`: every record below is processed. Files that only they needed may be freed.
    ///
    /// # Errors
    /// `CursorLost`: the consumer fell behind its bound. `Io`, `Closed`: the cursor could not be stored; it has moved
    /// in memory.
    /// `InvalidOptions`: `lsn` is above [`Tail::position`].
    ///
    /// # Durability
    /// The cursor is stored when it reaches another log file, by [`Log::truncate_before`](crate::Log::truncate_before),
    /// when the tail is dropped and when the log is closed. After a crash, records above the stored position are
    /// yielded again.
    ///
    /// # Progress
    /// Short mutexes; once per log file it also blocks on writing and syncing a small file, on this thread.
    pub fn advance(&mut self, lsn: Lsn) -> Result<(), WalError> {
        let position = self.position();
        if lsn > position {
            return Err(WalError::options(format!(
                "consumer {} cannot advance to {lsn}: it has come to {position}",
                self.name()
            )));
        }
        if lsn <= self.advanced {
            return Ok(());
        }
        let restart = self.assembler.restart(lsn);
        self.advanced = lsn;
        self.frames.advance(lsn, restart)
    }

    /// Returns the next record if one is durable, without waiting.
    ///
    /// # Errors
    /// `CursorLost`: the next records were freed. `Damaged`: they do not read back. `Io`. `Poisoned`, `Closed`: every
    /// durable record was yielded and no other will be.
    ///
    /// # Durability
    /// A record that is yielded is durable.
    ///
    /// # Progress
    /// Short mutexes; blocks on reading files if it has fallen behind the frames in memory, on nothing else.
    pub fn try_next(&mut self) -> Result<Option<Record>, WalError> {
        loop {
            if let Some(record) = self.assembler.next() {
                return Ok(Some(record));
            }
            if !self.take_frame()? {
                return Ok(None);
            }
        }
    }

    /// Returns the next record; waits until one is durable.
    ///
    /// # Errors
    /// As [`Tail::try_next`].
    ///
    /// # Durability
    /// A record that is yielded is durable.
    ///
    /// # Progress
    /// Blocks on a flush by another thread, and asks for none; on reading files as [`Tail::try_next`].
    #[expect(clippy::should_implement_trait, reason = "a tail does not end, it fails or waits")]
    pub fn next(&mut self) -> Result<Record, WalError> {
        loop {
            if let Some(record) = self.try_next()? {
                return Ok(record);
            }
            self.frames.wait();
        }
    }

    /// Returns a future of the next record. A poll may read files, as [`Tail::try_next`] does.
    ///
    /// # Errors
    /// As [`Tail::try_next`].
    ///
    /// # Cancel safety
    /// Dropping it loses no record: the next call yields the same one.
    ///
    /// # Progress
    /// Wait-free. A poll of the future blocks on what [`Tail::try_next`] does.
    pub fn next_async(&mut self) -> NextRecord<'_> {
        NextRecord { tail: self, id: None }
    }

    /// Takes the next durable frame; returns `false` if there is none.
    fn take_frame(&mut self) -> Result<bool, WalError> {
        let assembler = &mut self.assembler;
        assembler.check()?;
        self.frames.take(|frame, place, limit| assembler.take(frame, place, limit))
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
            let frames = &tail.frames;
            if !frames.core().flusher.watch.register(id, context.waker(), || frames.has_news()) {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for NextRecord<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.tail.frames.core().flusher.watch.forget(id);
        }
    }
}
