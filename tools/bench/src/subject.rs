//! `Subject`: a log that can be measured without a disk. It is the only interface through which Collie's log and the
//! other protocols are driven.

/// Appending from one thread.
pub(crate) trait Append {
    /// Appends a record with `body`; calls `hook` after the record has its position and before it counts as complete.
    /// Returns the end of the record.
    fn append_with<F: FnOnce()>(&mut self, body: &[u8], hook: F) -> u64;

    /// Appends a record with `body`; returns its end.
    fn append(&mut self, body: &[u8]) -> u64 {
        self.append_with(body, || ())
    }

    /// Waits until the boundary has passed `end`, which an append returned.
    fn wait_boundary(&mut self, end: u64);
}

/// A log in memory.
pub(crate) trait Subject: Sync {
    /// The writer of one thread.
    type Writer<'a>: Append + Send
    where
        Self: 'a;

    /// Creates the writer of thread number `thread`.
    fn writer(&self, thread: usize) -> Self::Writer<'_>;

    /// Waits until everything appended so far is in the sink.
    fn drain(&self);
}
