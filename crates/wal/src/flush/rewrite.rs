//! Work of a flush outside of its usual course: the rewrite after an error, the closing frame, the record of copies
//! that left or came back, and a jump of positions.

use collie_base::Lsn;

use super::{Flusher, in_flight::Permit, queue::Purpose};
use crate::{
    WalError,
    append::State,
    copies::Mirror,
    flush::frame_writer::{FrameWriter, sync_file},
};

impl Flusher {
    /// Writes everything that is not durable to another file if the current one has failed (W5); returns whether it
    /// had.
    pub(super) fn rewrite(&self, writer: &mut FrameWriter, target: Lsn) -> Result<bool, WalError> {
        let Some(cause) = writer.broken().map(str::to_owned) else { return Ok(false) };
        let (durable, state) = (self.durable.load(), self.queue.lock().state);
        if state != State::Open || writer.is_lost() {
            return Err(self.refusal(state));
        }
        let to = target.max(writer.issued);
        let rewritten = writer.rewrite(&self.reserve, &self.segments, to);
        if let Err(error) = rewritten.and_then(|()| writer.link_copies(&self.segments, durable)) {
            writer.lose();
            self.warnings.note(format!(
                "{cause}; writing what lies above {durable} to another file failed too ({error}): nothing is \
                 acknowledged until the log is opened again"
            ));
            return Err(error);
        }
        self.warnings.note(format!(
            "{cause}; that file is not used again, {} bytes above {durable} were written to {} instead and the log goes on",
            to.bytes_since(durable),
            writer.path.display()
        ));
        self.named.store(durable);
        self.recent.written_elsewhere(writer.issued, &writer.path, writer.offset);
        self.publish(writer);
        self.wake_written();
        Ok(true)
    }

    /// Syncs, records a change of the copies, and moves the marks.
    pub(super) fn sync_and_publish(&self, writer: &mut FrameWriter) -> Result<(), WalError> {
        self.acknowledge_early();
        writer.sync()?;
        writer.link_copies(&self.segments, self.durable.load())?;
        self.publish(writer);
        Ok(())
    }

    /// Plants the mistake of moving the mark before the sync.
    pub(super) fn acknowledge_early(&self) {
        if mistake!("ACK_BEFORE_SYNC") {
            self.durable.store(self.written.load());
        }
    }

    /// Moves the marks to the positions of the frame writer (W4).
    fn publish(&self, writer: &FrameWriter) {
        self.written.store(writer.written());
        self.durable.store(writer.durable());
    }

    /// Takes records before which positions jump to `start`, in a separate frame, into which they fit, and makes them
    /// durable. Everything before is durable, and no other thread takes records.
    ///
    /// # Errors
    /// `Full`, `Io`: there is no file for it, and nothing was done. `Poisoned`: the records may or may not be in the
    /// log.
    pub(crate) fn jump(&self, start: Lsn, records: &[u8]) -> Result<(), WalError> {
        let mut writer = self.frame_writer.lock();
        let state = self.queue.lock().state;
        if state != State::Open {
            return Err(self.refusal(state));
        }
        let issued = writer.issued;
        if !self.rewrite(&mut writer, issued)? && writer.is_unsynced() {
            // The empty frame of a silence is not synced.
            self.sync_and_publish(&mut writer)?;
        }
        let link = writer.jump_link(&self.segments, records.len())?;
        let jumped = writer
            .write_payload(records, start, issued, Some(link), false)
            .and_then(|_end| writer.sync_by(|file| if mistake!("JUMP_UNSYNCED") { Ok(()) } else { sync_file(file) }));
        if let Err(error) = jumped {
            // The records cannot be rewritten elsewhere, because they are not in the ring.
            writer.lose();
            drop(writer);
            self.poison();
            return Err(error);
        }
        self.named.store(issued);
        self.recent.written_elsewhere(writer.issued, &writer.path, writer.offset);
        self.reserve.jump(writer.issued);
        self.publish(&writer);
        drop(writer);
        self.watch.notify();
        Ok(())
    }

    /// Writes and syncs the closing frame.
    pub(super) fn close_log(&self, writer: &mut FrameWriter) -> Result<(), WalError> {
        loop {
            writer.write_end(&self.segments, self.durable.load())?;
            self.sync_and_publish(writer)?;
            // Otherwise a copy left in between, and the LINK about that was written behind the closing frame.
            if writer.end_marked {
                return Ok(());
            }
        }
    }

    /// Returns whether a durable LINK records the current live copies; until then nothing is acknowledged.
    pub(super) fn copies_are_linked(&self) -> bool {
        self.mirror.as_ref().is_none_or(Mirror::is_settled)
    }

    /// Records which copies hold the log, if that changed, for a flush that was to sync; then moves the marks.
    pub(super) fn link_changed_copies(&self, writer: &mut FrameWriter, permit: &Permit) -> Result<(), WalError> {
        if !permit.purpose.syncs() || self.copies_are_linked() {
            return Ok(());
        }
        let state = self.queue.lock().state;
        if state != State::Open {
            return Err(self.refusal(state));
        }
        if self.sync_and_publish(writer).is_ok() || self.rewrite(writer, permit.target)? {
            return Ok(());
        }
        Err(self.refusal(State::Poisoned))
    }

    /// Runs a flush that records that a copy left or came back, if that is so and a flush may begin.
    pub(crate) fn link_copies(&self) {
        let permit = if self.copies_are_linked() { None } else { self.begin(&mut self.queue.lock(), Purpose::Sync) };
        if let Some(permit) = permit {
            // A failure has poisoned the log, and every waiter gets that error.
            let _poisoned = self.flush(permit);
        }
    }
}
