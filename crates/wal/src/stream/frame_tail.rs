//! `FrameTail`: follows the frames of a running log in order, each once it is durable. A [`Tail`](crate::Tail) makes
//! records of them, and a [`Shipper`](crate::Shipper) sends them as they are.
//!
//! It takes frames from memory (`Recent`) while it keeps up, and from the files when it does not; the caller sees no
//! difference. It never reads the ring, and it never delays a commit.
//!
//! # Invariants
//! - Q1. `position` is the end of the last frame taken. The next frame starts there or, at a LINK that jumps, behind
//!   it: no frame is skipped or taken twice, whichever source it comes from (LOG-12).
//! - Q2. Nothing at or above `durable` is taken.
//! - Q3. A frame that `take` refused is offered again: an error moves nothing.
//!
//! Checked by `tests/tail.rs` and `tests/ship.rs`.

use std::{path::Path, sync::Arc};

use collie_base::Lsn;

use crate::{
    TailOptions, WalError, append::State, consumers::Attached, core::Core, flush::recent::HeldFrame,
    read::assemble::Place, read::frame_reader::FrameReader, read::frame_reader::Running, read::source::Frame,
    read::source::FrameSource,
};

/// The position of a consumer in the frames of a log.
#[derive(Debug)]
pub(crate) struct FrameTail {
    core: Arc<Core>,
    name: String,
    /// The position at which reading begins.
    read_from: Lsn,
    position: Lsn,
    /// Everything below may be taken. When this is reached, the durable end is loaded again.
    limit: Lsn,
    /// The files, while it reads from them.
    frames: Option<FrameReader>,
    /// File and offset behind the last frame taken.
    behind: Option<(Arc<Path>, u64)>,
}

impl FrameTail {
    /// Takes the cursor `name`, and returns its position.
    pub(crate) fn new(core: Arc<Core>, name: &str, options: &TailOptions) -> Result<(Self, Attached), WalError> {
        let attached = core.consumers.attach(&core.flusher.segments, name, options)?;
        core.flusher.recent.attach();
        let (name, read_from) = (name.to_owned(), attached.restart);
        let tail = Self { core, name, read_from, position: Lsn::ZERO, limit: Lsn::ZERO, frames: None, behind: None };
        // The consumer may have been at its bound, and the attach may have moved it.
        tail.core.flusher.refresh_full();
        Ok((tail, attached))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn position(&self) -> Lsn {
        self.position
    }

    /// Returns whether it takes frames from memory and not from files.
    pub(crate) fn reads_memory(&self) -> bool {
        self.frames.is_none()
    }

    /// Moves the cursor; see [`Consumers::advance`](crate::consumers::Consumers::advance).
    pub(crate) fn advance(&self, lsn: Lsn, restart: Lsn) -> Result<(), WalError> {
        let flusher = &self.core.flusher;
        let moved = self.core.consumers.advance(&flusher.segments, &self.name, lsn, restart);
        flusher.refresh_full();
        moved
    }

    /// Returns whether a wait is over: there is a new durable frame, or the log has ended.
    pub(crate) fn has_news(&self) -> bool {
        let flusher = &self.core.flusher;
        let end = flusher.recent.durable_end(flusher.durable.load()).lsn;
        self.position.max(self.limit) < end || flusher.queue.lock().state != State::Open
    }

    /// Blocks until [`FrameTail::has_news`].
    pub(crate) fn wait(&self) {
        self.core.flusher.watch.wait(|| self.has_news());
    }

    /// Passes the next durable frame to `take`, with its place and the durable limit; returns `false` if there is none
    /// yet.
    ///
    /// # Errors
    /// `CursorLost`, `Damaged`, `Io`; those of `take`. `Poisoned`, `Closed`: every durable frame was taken and no other
    /// will follow.
    pub(crate) fn take(
        &mut self,
        mut take: impl FnMut(&Frame<'_>, &Place, Lsn) -> Result<(), WalError>,
    ) -> Result<bool, WalError> {
        if self.take_durable(&mut take)? {
            return Ok(true);
        }
        // In this order: frames that became durable before the end of the log are taken first.
        let state = self.core.flusher.queue.lock().state;
        if state == State::Open {
            return Ok(false);
        }
        if self.take_durable(&mut take)? { Ok(true) } else { Err(self.core.flusher.refusal(state)) }
    }

    fn take_durable(
        &mut self,
        take: &mut impl FnMut(&Frame<'_>, &Place, Lsn) -> Result<(), WalError>,
    ) -> Result<bool, WalError> {
        let flusher = &self.core.flusher;
        if self.core.consumers.is_lost(&self.name) {
            return Err(WalError::CursorLost { oldest: flusher.segments.pins.start() });
        }
        let durable = flusher.durable.load();
        if self.position >= durable {
            return Ok(false);
        }
        let held = self.behind.as_ref().and_then(|_| flusher.recent.at(self.position, durable));
        if let Some(held) = held.filter(|held| held.start == self.position) {
            self.frames = None;
            return self.take_held(&held, durable, take).map(|()| true);
        }
        if self.frames.is_none() || self.position >= self.limit || self.limit == Lsn::ZERO {
            self.go_to_files(durable)?;
        }
        let Some(frames) = &mut self.frames else { return Ok(false) };
        let Some((frame, place)) = frames.next_frame(self.limit)? else {
            // Positions jump between here and the limit.
            frames.reach(self.limit);
            self.position = self.position.max(self.limit);
            return Ok(false);
        };
        if let Err(error) = take(&frame, &place, self.limit) {
            // Q3: continue behind the previous frame at the next call.
            self.frames = None;
            return Err(error);
        }
        self.behind = Some((place.path.clone(), frame.next_offset));
        self.position = frame.header.end();
        Ok(true)
    }

    fn take_held(
        &mut self,
        held: &HeldFrame,
        durable: Lsn,
        take: &mut impl FnMut(&Frame<'_>, &Place, Lsn) -> Result<(), WalError>,
    ) -> Result<(), WalError> {
        let (mut source, place) = (held, &held.place);
        let frame = source.frame_at(place.offset, None)?.map_err(|bad| WalError::Damaged {
            lsn: held.start,
            path: place.path.to_path_buf(),
            offset: place.offset,
            stored: bad.stored,
            computed: bad.computed,
            durable,
        })?;
        take(&frame, place, durable)?;
        self.behind = Some((place.path.clone(), held.next_offset));
        self.position = held.end;
        Ok(())
    }

    /// Begins, or continues, to read from files up to the current durable end.
    fn go_to_files(&mut self, durable: Lsn) -> Result<(), WalError> {
        let (flusher, pins) = (&self.core.flusher, &self.core.flusher.segments.pins);
        // In this order: everything durable lies in the segments that are listed afterwards.
        let end = flusher.recent.durable_end(durable);
        self.limit = end.lsn;
        let spans = flusher.segments.spans();
        if let Some(frames) = &mut self.frames {
            return frames.follow(spans, end);
        }
        let running = Running { pins: pins.clone(), end, mapped: None };
        let from = self.position.max(self.read_from);
        let mut frames = FrameReader::new(self.core.env.files.clone(), spans, from, Some(running));
        if let Some((path, offset)) = &self.behind {
            frames.go_on_at(path, *offset, self.position)?;
        }
        self.frames = Some(frames);
        Ok(())
    }
}

impl Drop for FrameTail {
    fn drop(&mut self) {
        self.core.flusher.recent.detach();
        self.core.consumers.detach(&self.core.flusher.segments, &self.name);
    }
}
