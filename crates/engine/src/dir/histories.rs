//! [`HistoryStart`]: where a history of the log begins. [`HistoryState`]: the state of a history as a node knows it,
//! for sessions that wait for a position in it.
//!
//! A position has a meaning only together with its history: after a failover the same number names another place.
//! Histories of one line follow each other; each ends for good where the record before the next one ends.

use collie_base::{HistoryId, Lsn, Term};

use crate::dir::control::History;

/// The start of a history, as the control file of a node knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryStart {
    /// The number of the leadership.
    pub term: Term,
    /// The random id of the history.
    pub history: HistoryId,
    /// The position of its INCARNATION record, where it starts.
    pub start: Lsn,
    /// The end of the record before that one.
    pub prev_end: Lsn,
}

impl From<History> for HistoryStart {
    fn from(History { term, id, start, previous_end }: History) -> Self {
        Self { term, history: id, start, prev_end: previous_end }
    }
}

impl From<HistoryStart> for History {
    fn from(HistoryStart { term, history, start, prev_end }: HistoryStart) -> Self {
        Self { term, id: history, start, previous_end: prev_end }
    }
}

/// The state of a history as a node knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryState {
    /// It is not known: it has not arrived here yet, or never will.
    Unknown,
    /// It is the newest one: its positions are visible here, or may become so.
    Current,
    /// Another one has followed it.
    Ended {
        /// Its records end here: anything above was lost on this line.
        at: Lsn,
    },
}

impl HistoryState {
    /// Looks `history` up in `histories`, which is ordered from the oldest to the newest.
    pub(crate) fn of(history: HistoryId, histories: &[HistoryStart]) -> Self {
        match histories.iter().position(|known| known.history == history) {
            None => Self::Unknown,
            Some(at) => histories.get(at + 1).map_or(Self::Current, |next| Self::Ended { at: next.prev_end }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a history is current, ended where its successor begins to count, or unknown. Method: a list of three.
    #[test]
    fn history_ends_where_the_next_one_leaves_it() {
        let start = |id, start, prev_end| HistoryStart {
            term: Term::new(1),
            history: HistoryId::new(id),
            start: Lsn::new(start),
            prev_end: Lsn::new(prev_end),
        };
        let list = [start(7, 100, 50), start(9, 900, 800), start(8, 2000, 1900)];
        let of = |id| HistoryState::of(HistoryId::new(id), &list);
        assert_eq!(of(7), HistoryState::Ended { at: Lsn::new(800) });
        assert_eq!(of(9), HistoryState::Ended { at: Lsn::new(1900) });
        assert_eq!([of(8), of(5)], [HistoryState::Current, HistoryState::Unknown]);
        assert_eq!(HistoryState::of(HistoryId::new(7), &[]), HistoryState::Unknown);
    }
}
