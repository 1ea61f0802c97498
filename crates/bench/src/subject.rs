//! `Subject`: a log that can be measured without a disk; Collie's and the protocols beside it are driven by this alone.

/// One thread's way to append.
pub(crate) trait Append {
    /// Appends a record with `body`; calls `hook` after the record has its position and before it counts as complete.
    /// Returns the position behind it.
    fn append_with<F: FnOnce()>(&mut self, body: &[u8], hook: F) -> u64;

    /// Appends a record with `body`; returns the position behind it.
    fn append(&mut self, body: &[u8]) -> u64 {
        self.append_with(body, || ())
    }

    /// Waits until the boundary has passed `end`, which an append returned.
    fn wait_boundary(&mut self, end: u64);

    /// Appends a record and waits until the boundary has passed it: an acknowledgement without the disk.
    fn commit(&mut self, body: &[u8]) {
        let end = self.append(body);
        self.wait_boundary(end);
    }
}

/// A log in memory.
pub(crate) trait Subject: Sync {
    /// What a thread appends with.
    type Writer<'a>: Append
    where
        Self: 'a;

    /// Makes the writer of thread number `thread`.
    fn writer(&self, thread: usize) -> Self::Writer<'_>;

    /// Returns the next free position, as well as the subject knows it.
    fn reserved(&self) -> u64;

    /// Returns a position below which every record is complete, the highest that can be found out now.
    fn boundary(&self) -> u64;

    /// Waits until everything appended so far is in the sink.
    fn drain(&self);
}
