//! `Target`: the interface to the database that follows.

use std::{future::Future, sync::Arc};

use collie_base::{Lsn, Term};
use thiserror::Error;

use super::Succession;
use crate::{compare::Held, identity::Identity, packet::DelayWindow, reads::ReadInbox};

/// A database that follows another.
pub trait Target: Send + Sync + 'static {
    /// Returns the identity of the node; `end` is the position that the next record must continue.
    fn identity(&self) -> Identity;

    /// Returns its positions.
    fn positions(&self) -> Positions;

    /// Returns how many bytes at the end of its log are covered, at most 64 KiB, and their CRC-32C; 0 bytes if it
    /// has none. The covered bytes are in its files.
    ///
    /// # Errors
    /// The log cannot be flushed or read.
    fn tail(&self) -> Result<(u32, u32), TargetError>;

    /// Takes whole records that begin at `start` and continue `prev_end`; returns their end. One caller at a time;
    /// blocks while too much waits to be applied.
    ///
    /// # Errors
    /// Nothing was taken.
    fn receive(&self, start: Lsn, prev_end: Lsn, records: &[u8]) -> Result<Lsn, TargetError>;

    /// Returns the highest term that it has promised to follow: nothing of a lower one is received or
    /// acknowledged.
    fn promised(&self) -> Term {
        Term::new(0)
    }

    /// Returns the request for the lead, if the database supports one.
    fn succession(&self) -> Option<&Arc<Succession>> {
        None
    }

    /// Returns the inbox for sampled reads of the primary; `None`: it asks for none.
    fn reads(&self) -> Option<&Arc<ReadInbox>> {
        None
    }

    /// Records that a message from the primary arrived at `now_ns`: everything below `durable` is on its disk.
    fn heard(&self, durable: Lsn, now_ns: u64) {
        let _nobody_asks = (durable, now_ns);
    }

    /// Records the primary's report at `now_ns` of how much later readers here saw commits, by its clock, if any
    /// were measured, and of how long they have been owed the oldest commit that they do not see, in nanoseconds.
    fn delayed(&self, delay: Option<DelayWindow>, owed_ns: u64, now_ns: u64) {
        let _nobody_asks = (delay, owed_ns, now_ns);
    }

    /// Moves the times since when its readers see positions up to `shown` to `out`, on its clock, in nanoseconds,
    /// as far as they changed since the last call, oldest first. Without such times, the position of an ack counts
    /// as visible from the time of the ack.
    fn take_shown_times(&self, shown: Lsn, out: &mut Vec<(Lsn, u64)>) {
        let _not_kept = (shown, out);
    }

    /// Lets its readers see everything below `show` that is applied.
    fn set_show(&self, show: Lsn);

    /// Resolves when more is on its disk or visible to its readers than in `told`; never, if it cannot notice
    /// that: positions are also read from time to time.
    ///
    /// # Cancel safety
    /// Dropping the future only ends the wait.
    fn moves(&self, told: Positions) -> impl Future<Output = ()> + Send {
        let _looked_at = told;
        std::future::pending()
    }

    /// Takes a snapshot of the state after everything below `at`, the present end of the stream, for comparison
    /// with the primary; `None` when the stream is elsewhere, or when the state may not be shown yet. Waits until
    /// it is applied.
    fn hold(&self, at: Lsn) -> Option<Box<dyn Held>> {
        let _nowhere = at;
        None
    }

    /// Returns the CRC-32C of its log from `from` to `to`, which is on its disk; `None` when it no longer has all
    /// of it. Blocks on reading the log.
    ///
    /// # Errors
    /// The log cannot be read.
    fn crc_between(&self, from: Lsn, to: Lsn) -> Result<Option<u32>, TargetError> {
        let _not_kept = (from, to);
        Ok(None)
    }

    /// Returns the received bytes that wait to be applied.
    fn queue_bytes(&self) -> u64;
}

/// The positions of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// Below it, everything is in the files of its log.
    pub received: Lsn,
    /// Below it, everything is on its disk.
    pub durable: Lsn,
    /// Below it, its readers see everything.
    pub applied: Lsn,
}

/// Why records were not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TargetError {
    /// They do not continue its log, or are no records.
    #[error("{0}")]
    Stream(String),
    /// There is no room at present.
    #[error("{0}")]
    Full(String),
    /// Its disk or its memory failed: it has to be opened again.
    #[error("{0}")]
    Failed(String),
    /// They are in its log and cannot be applied, nor can any record that follows: it has to be rebuilt.
    /// Everything applied before can be read.
    #[error("{why}")]
    Damaged {
        /// The record that stopped it.
        at: Lsn,
        /// The reason.
        why: String,
    },
}
