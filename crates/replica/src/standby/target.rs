//! `Target`: what is asked of the database that follows.

use std::{fmt, future::Future, sync::Arc};

use collie_base::{Lsn, Term};

use super::Succession;
use crate::{compare::Held, identity::Identity, packet::DelayWindow, reads::ReadInbox};

/// A database that follows another.
pub trait Target: Send + Sync + 'static {
    /// Who it is; `end` is where the next record must continue.
    fn identity(&self) -> Identity;

    /// How far it has come.
    fn positions(&self) -> Positions;

    /// The CRC-32C of the end of its log, and of how many bytes, at most 64 KiB; 0 bytes if it has none. What it covers is in its
    /// files.
    ///
    /// # Errors
    /// The log cannot be flushed or read.
    fn tail(&self) -> Result<(u32, u32), TargetError>;

    /// Takes whole records that begin at `start` and continue `prev_end`; returns where they end. One caller at a time; blocks while
    /// too much waits to be applied.
    ///
    /// # Errors
    /// Nothing was taken.
    fn receive(&self, start: Lsn, prev_end: Lsn, records: &[u8]) -> Result<Lsn, TargetError>;

    /// The highest term that it has promised to follow: nothing of a lower one is received or acknowledged.
    fn promised(&self) -> Term {
        Term::new(0)
    }

    /// Whoever wants to be handed the lead.
    fn succession(&self) -> Option<&Arc<Succession>> {
        None
    }

    /// Where sampled reads of the primary go; `None`: it asks for none.
    fn reads(&self) -> Option<&Arc<ReadInbox>> {
        None
    }

    /// The primary was heard at `now_ns`: everything below `durable` is on its disk.
    fn heard(&self, durable: Lsn, now_ns: u64) {
        let _nobody_asks = (durable, now_ns);
    }

    /// The primary says at `now_ns` how much later readers here saw commits, by its clock, if any were measured, and for how long they have been
    /// owed the oldest of what they do not see, in nanoseconds.
    fn delayed(&self, delay: Option<DelayWindow>, owed_ns: u64, now_ns: u64) {
        let _nobody_asks = (delay, owed_ns, now_ns);
    }

    /// Moves to `out` since when its readers see positions up to `shown`, on its clock, in nanoseconds, as far as that changed since the last
    /// call, oldest first. Whoever keeps no such times has an ack's position be shown as of the ack.
    fn take_shown_times(&self, shown: Lsn, out: &mut Vec<(Lsn, u64)>) {
        let _not_kept = (shown, out);
    }

    /// Its readers may see everything below `show` that is applied.
    fn set_show(&self, show: Lsn);

    /// Resolves when more is on its disk or seen by its readers than `told` says; never, if it cannot tell: positions are looked at now
    /// and then anyway.
    ///
    /// # Cancel safety
    /// Dropping it waits no more.
    fn moves(&self, told: Positions) -> impl Future<Output = ()> + Send {
        let _looked_at = told;
        std::future::pending()
    }

    /// Holds what everything below `at` has left, which is where the stream stands, to be compared with the primary; `None` when it is
    /// elsewhere, or may not be shown yet. Waits until it is applied.
    fn hold(&self, at: Lsn) -> Option<Box<dyn Held>> {
        let _nowhere = at;
        None
    }

    /// The CRC-32C of its log from `from` to `to`, which is on its disk; `None` when it does not have all of it any more. Blocks on reading
    /// that.
    ///
    /// # Errors
    /// The log cannot be read.
    fn crc_between(&self, from: Lsn, to: Lsn) -> Result<Option<u32>, TargetError> {
        let _not_kept = (from, to);
        Ok(None)
    }

    /// Bytes received that wait to be applied.
    fn queue_bytes(&self) -> u64;
}

/// How far a replica has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// In its log's files.
    pub received: Lsn,
    /// On its disk.
    pub durable: Lsn,
    /// Seen by its readers.
    pub applied: Lsn,
}

/// Why records were not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetError {
    /// They do not continue what it has, or are no records.
    Stream(String),
    /// There is no room; there may be later.
    Full(String),
    /// Its disk or its memory failed: it has to be opened again.
    Failed(String),
    /// They are in its log and cannot be applied, nor can anything that follows: it has to be filled anew. What was applied before can be
    /// read.
    Damaged {
        /// The record that stopped it.
        at: Lsn,
        /// Why.
        why: String,
    },
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(text) | Self::Full(text) | Self::Failed(text) | Self::Damaged { why: text, .. } => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for TargetError {}
