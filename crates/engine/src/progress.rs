//! How far opening a directory has come, for whoever waits for it.

/// Records, or rows, between two calls of the progress function.
pub(crate) const PROGRESS_RECORDS: u64 = 16_384;

/// What opening is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenPhase {
    /// The log's files are checked, and its end is found.
    Verify,
    /// The levels are loaded.
    Levels,
    /// The log is read for how its large transactions end. Comes in the midst of the replay, once, and only where they are
    /// larger than memory should be.
    Survey,
    /// The log is read and applied.
    Replay,
    /// Everything is ready.
    Done,
}

/// How far opening has come. The function that is given it is called at the beginning of each phase, when one goes on after
/// another, and every some thousand rows or tenth of a second, by the thread that opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenProgress {
    /// What it is busy with.
    pub phase: OpenPhase,
    /// Bytes of log read; while it is verified, of its files; of the levels, bytes of tables, about.
    pub bytes_done: u64,
    /// As many of those as there are.
    pub bytes_total: u64,
    /// Rows loaded, or row writes read from the log. 0 while it is verified or surveyed.
    pub rows: u64,
}

impl OpenProgress {
    /// Returns how much of the phase is done: 100 when there is nothing to do.
    pub fn percent(&self) -> u64 {
        let percent = u128::from(self.bytes_done) * 100 / u128::from(self.bytes_total.max(1));
        if self.bytes_total == 0 { 100 } else { u64::try_from(percent).unwrap_or(100).min(100) }
    }
}

/// Tells the progress function.
pub(crate) struct Meter<'p> {
    now: OpenProgress,
    tell: &'p mut dyn FnMut(&OpenProgress),
}

impl<'p> Meter<'p> {
    pub(crate) fn new(tell: &'p mut dyn FnMut(&OpenProgress)) -> Self {
        Self { now: OpenProgress { phase: OpenPhase::Verify, bytes_done: 0, bytes_total: 0, rows: 0 }, tell }
    }

    /// Begins a phase of so many bytes.
    pub(crate) fn begin(&mut self, phase: OpenPhase, bytes_total: u64) {
        self.go_on(OpenProgress { phase, bytes_done: 0, bytes_total, rows: 0 });
    }

    /// Goes on with a phase as it was left for another.
    pub(crate) fn go_on(&mut self, left: OpenProgress) {
        self.now = left;
        (self.tell)(&self.now);
    }

    /// Tells how far it has come.
    pub(crate) fn note(&mut self, bytes_done: u64, rows: u64) {
        (self.now.bytes_done, self.now.rows) = (bytes_done, rows);
        (self.tell)(&self.now);
    }

    /// As [`Meter::note`], where it shows only now how many bytes there are.
    pub(crate) fn note_of(&mut self, bytes_done: u64, bytes_total: u64, rows: u64) {
        self.now.bytes_total = bytes_total;
        self.note(bytes_done, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: percent is whole, never above 100, and nothing to do is all of it. Method: some.
    #[test]
    fn percent_of_a_phase_is_of_its_bytes() {
        let percent = |bytes_done, bytes_total| {
            OpenProgress { phase: OpenPhase::Replay, bytes_done, bytes_total, rows: 7 }.percent()
        };
        assert_eq!([percent(0, 3), percent(1, 3), percent(3, 3), percent(4, 3)], [0, 33, 100, 100]);
        assert_eq!([percent(0, 0), percent(u64::MAX, u64::MAX), percent(u64::MAX / 2, u64::MAX)], [100, 100, 49]);
    }

    /// Goal: a phase begins at nothing, whatever the one before came to. Method: two phases.
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
