//! `CommitLog`: the log as transactions need it. The engine implements it with the write-ahead log.

use collie_base::Lsn;
use std::error::Error;

/// The place of a record in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Position of the first byte; for a commit record its CSN.
    pub start: Lsn,
    /// Position after the last byte, for which a waiter waits.
    pub end: Lsn,
}

/// An append-only log with a boundary below which every record is complete and published.
///
/// # Contract
/// - Starts of records fix the commit order. LSN 0 is never used; the first record starts at 4096 or above.
/// - `boundary`, `durable` and `settled` are record boundaries, only grow, and `settled <= durable <= boundary`.
/// - `boundary` passes a commit record only after its `publish` has returned, and a thread that loads it with Acquire
///   sees what `publish` stored.
/// - `append_commit` fails before anything is reserved or not at all: once `publish` was called the commit stands.
pub trait CommitLog: Send + Sync + 'static {
    /// The handle through which a thread appends.
    type Writer;
    /// Why an append fails.
    type Error: Error + Send + Sync + 'static;

    /// Appends a record made of `parts` that decides no transaction (a chunk of a large transaction, an abort record).
    ///
    /// # Errors
    /// Those of the log; nothing was appended.
    fn append(&self, writer: &mut Self::Writer, tag: u8, parts: &[&[u8]]) -> Result<Appended, Self::Error>;

    /// Appends a commit record and calls `publish` with its start before the boundary can pass it.
    ///
    /// `publish` stores two words: it cannot fail, allocates nothing and takes no lock.
    ///
    /// # Errors
    /// Those of the log; nothing was appended and `publish` was not called.
    fn append_commit(
        &self,
        writer: &mut Self::Writer,
        tag: u8,
        bytes: &[u8],
        publish: impl FnOnce(Lsn),
    ) -> Result<Appended, Self::Error>;

    /// Returns the position below which every record is complete and published (an Acquire load).
    fn boundary(&self) -> Lsn;

    /// Returns the position below which every byte survives a crash (an Acquire load).
    fn durable(&self) -> Lsn;

    /// Returns the position below which every commit also survives the loss of this node, as far as the quorum
    /// configuration requires: at or below `durable`, and equal to it without a quorum. It only grows, and an Acquire
    /// load of it orders the same as one of `durable`.
    fn settled(&self) -> Lsn {
        self.durable()
    }
}
