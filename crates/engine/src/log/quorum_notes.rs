//! `QuorumNotes`: the contents of the QUORUM records of a log, by position.
//!
//! # Invariants
//! - N1. The newest note whose record is in the log is in force. A lookup finds it as soon as any position above
//!   its record is visible, and a cut of the log keeps it in MANIFEST (`carry.rs`).
//! - N2. A note counts only while its record is in the log, or after the record was cut away as quorum-durable. So
//!   if a failover takes a record back, its note is lost with it, and a cut carries the newest note below it, not
//!   the newest of all.
//!
//! Checked by the tests here, and by `tests/quorum.rs`: reopening, cuts, replicas.

use collie_base::Lsn;
use parking_lot::Mutex;

use crate::redo::quorum_record::QuorumNote;

/// A note and the position of its record.
pub(crate) type NotedAt = (Lsn, QuorumNote);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct QuorumNotes(Mutex<Vec<NotedAt>>);

impl QuorumNotes {
    /// Makes the list of the `found` notes, in log order.
    pub(crate) fn new(found: Vec<NotedAt>) -> Self {
        Self(Mutex::new(found))
    }

    /// Adds the note of the record at `at`, which is above those of all earlier notes.
    pub(crate) fn note(&self, at: Lsn, note: QuorumNote) {
        self.0.lock().push((at, note));
    }

    /// Adds a note while `append` appends its record; no other note is added in between. `append` returns the start
    /// of the record and a result for the caller.
    ///
    /// # Errors
    /// Those of `append`: no note is added.
    pub(crate) fn append<R, E>(&self, note: &QuorumNote, append: impl FnOnce() -> Result<(Lsn, R), E>) -> Result<R, E> {
        let mut notes = self.0.lock();
        let (at, result) = append()?;
        notes.push((at, note.clone()));
        Ok(result)
    }

    /// Returns the note in force (N1).
    pub(crate) fn newest(&self) -> Option<NotedAt> {
        self.0.lock().last().cloned()
    }

    /// Returns the note that a cut of the log at `cut` must carry (N2), and drops the older ones.
    pub(crate) fn carried(&self, cut: Lsn) -> Option<NotedAt> {
        let mut notes = self.0.lock();
        let below = notes.iter().take_while(|(at, _)| *at < cut).count();
        notes.drain(..below.saturating_sub(1));
        notes.first().filter(|_| below > 0).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(list: &str) -> QuorumNote {
        QuorumNote { list: list.to_owned(), before: None, degraded: false, node: 7, configured: "ANY 1 (c)".to_owned() }
    }

    /// Goal: a cut carries the newest note below it, and the notes above it stay (N2). Method: cuts below, at,
    /// between and above three notes.
    #[test]
    fn a_cut_carries_the_newest_note_below_it() {
        let [first, second, third] = ["1", "2", "3"].map(note);
        let found = [(10, &first), (20, &second), (30, &third)];
        for (cut, carried) in [(5, None), (10, None), (11, Some(&first)), (30, Some(&second)), (99, Some(&third))] {
            let notes = QuorumNotes::new(found.map(|(at, note)| (Lsn::new(at), note.clone())).to_vec());
            let left = notes.carried(Lsn::new(cut));
            assert_eq!(left.as_ref().map(|(_, note)| note), carried, "cut at {cut}");
            assert_eq!(notes.carried(Lsn::new(cut)), left, "asked twice");
            assert_eq!(notes.newest().map(|(_, note)| note), Some(third.clone()));
        }
    }
}
