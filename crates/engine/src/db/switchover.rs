//! Switchover on the side of the primary: its writers end and its log takes no more records, until the node
//! continues as a primary or becomes a replica.
//!
//! ```text
//! pause_writes -> open_writers is empty -> hold_log: the end of everything -> refuse_commits, and closed
//!                                                                          -> or resume_writes: as before pause_writes
//! ```

use collie_base::Lsn;

use crate::{Db, EngineError};

impl Db {
    /// Makes transactions that have not written yet wait before their first write
    /// ([`Session::wait_for_room`](crate::Session::wait_for_room)), until [`Db::resume_writes`] lets them continue
    /// or [`Db::refuse_commits`] refuses them. Transactions that have written continue.
    pub fn pause_writes(&self) {
        self.shared.pause.pause();
    }

    /// Returns the slots ([`CancelHandle::slot`](crate::CancelHandle::slot)) of sessions whose transaction is open
    /// and has written or locked rows. Commits that only wait for a disk or for replicas are not among them.
    pub fn open_writers(&self) -> Vec<usize> {
        let mut slots: Vec<usize> = self.lock_picture().xids.iter().map(|(_, owner)| owner.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Holds the log, so that it takes no record until [`Db::resume_writes`], not even from background work;
    /// returns where it ends. A commit that is attempted nevertheless is refused ([`EngineError::Replica`]) and
    /// rolled back.
    ///
    /// # Durability
    /// Everything in the log is on disk on return, asynchronous commits too.
    ///
    /// # Progress
    /// Waits for appends in progress and for a flush.
    ///
    /// # Errors
    /// Those of the log; the log is not held then.
    pub fn hold_log(&self) -> Result<Lsn, EngineError> {
        let log = self.shared.txns.log();
        log.hold();
        let ended = log.wait_published().and_then(|end| log.wait_durable(end).map(|()| end));
        Ok(ended.inspect_err(|_| log.release())?)
    }

    /// Lets the log take records again, and lets waiting transactions write.
    pub fn resume_writes(&self) {
        self.shared.txns.log().release();
        self.shared.pause.resume();
    }
}
