//! The progress of opening a directory, reported to a function of the caller.

/// Number of records, or rows, between two calls of the progress function.
pub(crate) const PROGRESS_RECORDS: u64 = 16_384;

/// A phase of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenPhase {
    /// The opening checks the files of the log and finds its end.
    Verify,
    /// The opening loads the LSM tree.
    Levels,
    /// The opening scans the log for the outcome of its large transactions. This phase interrupts the replay, at
    /// most once, and only if the waiting operations of these transactions exceed their memory limit.
    ScanChunks,
    /// The opening reads the log and applies it.
    Replay,
    /// Everything is ready.
    Done,
}

/// The progress of an opening. The opening thread calls the caller's function at the beginning of each phase, when
/// it resumes an interrupted phase, and every few thousand rows or tenth of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenProgress {
    /// The current phase.
    pub phase: OpenPhase,
    /// Bytes of log read; in `Verify`, bytes of its files checked; in `Levels`, the approximate number of bytes of
    /// tables loaded.
    pub bytes_done: u64,
    /// The total number of these bytes.
    pub bytes_total: u64,
    /// Rows loaded, or row writes read from the log. 0 in `Verify` and `ScanChunks`.
    pub rows: u64,
}

impl OpenProgress {
    /// Returns the finished share of the phase in percent: 100 when there is nothing to do.
    pub fn percent(&self) -> u64 {
        let percent = u128::from(self.bytes_done) * 100 / u128::from(self.bytes_total.max(1));
        if self.bytes_total == 0 { 100 } else { u64::try_from(percent).unwrap_or(100).min(100) }
    }
}

/// Calls the progress function.
pub(crate) struct Meter<'p> {
    now: OpenProgress,
    tell: &'p mut dyn FnMut(&OpenProgress),
}

impl<'p> Meter<'p> {
    pub(crate) fn new(tell: &'p mut dyn FnMut(&OpenProgress)) -> Self {
        Self { now: OpenProgress { phase: OpenPhase::Verify, bytes_done: 0, bytes_total: 0, rows: 0 }, tell }
    }

    /// Begins a phase of `bytes_total` bytes.
    pub(crate) fn begin(&mut self, phase: OpenPhase, bytes_total: u64) {
        self.go_on(OpenProgress { phase, bytes_done: 0, bytes_total, rows: 0 });
    }

    /// Resumes a phase at the point where another one interrupted it.
    pub(crate) fn go_on(&mut self, left: OpenProgress) {
        self.now = left;
        (self.tell)(&self.now);
    }

    /// Reports the progress within the phase.
    pub(crate) fn note(&mut self, bytes_done: u64, rows: u64) {
        (self.now.bytes_done, self.now.rows) = (bytes_done, rows);
        (self.tell)(&self.now);
    }

    /// Does the same as [`Meter::note`] where the total number of bytes becomes known only now.
    pub(crate) fn note_of(&mut self, bytes_done: u64, bytes_total: u64, rows: u64) {
        self.now.bytes_total = bytes_total;
        self.note(bytes_done, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the percentage is a whole number and never above 100, and an empty phase is complete. Method: a few
    /// values.
    #[test]
    fn percent_of_a_phase_is_of_its_bytes() {
        let percent = |bytes_done, bytes_total| {
            OpenProgress { phase: OpenPhase::Replay, bytes_done, bytes_total, rows: 7 }.percent()
        };
        assert_eq!([percent(0, 3), percent(1, 3), percent(3, 3), percent(4, 3)], [0, 33, 100, 100]);
        assert_eq!([percent(0, 0), percent(u64::MAX, u64::MAX), percent(u64::MAX / 2, u64::MAX)], [100, 100, 49]);
    }

    /// Goal: a phase begins at zero, wherever the one before ended. Method: two phases.
    #[test]
    fn phase_begins_at_nothing_and_is_told_at_once() {
        let mut told = Vec::new();
        let mut tell = |progress: &OpenProgress| told.push((progress.phase, progress.bytes_done, progress.rows));
        let mut meter = Meter::new(&mut tell);
        meter.begin(OpenPhase::Levels, 10);
        meter.note(5, 2);
        meter.begin(OpenPhase::Replay, 0);
        meter.note_of(3, 20, 1);
        let expected = [
            (OpenPhase::Levels, 0, 0),
            (OpenPhase::Levels, 5, 2),
            (OpenPhase::Replay, 0, 0),
            (OpenPhase::Replay, 3, 1),
        ];
        assert_eq!(told, expected);
    }
}
