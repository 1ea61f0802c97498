//! `HistoryList`: the newest histories of a line of positions, as the control file keeps them.
//!
//! A history begins at each start after a crash and at each promotion, so without a bound the list would grow for
//! as long as the directory exists. A history is needed while some log may still hold positions of it: two nodes
//! then find by it where their logs part, and a token shows by it whether it was lost. Where no log reaches back to
//! a history, a replica has to be rebuilt whatever the list says.
//!
//! # Invariants
//! - L1. The list ascends by the position where a history starts and has no gap behind its first entry: entries are
//!   removed only at its front. So the newest common entry of two lists is that of the unbounded lists, if both
//!   lists have it.
//! - L2. It has at most [`HISTORIES_MAX`] entries, so that a control file with it can always be read again
//!   (`control.rs`).
//! - L3. A bound never empties a list that was not empty: an empty list means that the directory never had a log.
//! - L4. A forgotten history is not added again: a log may reach further back than the list.
//!
//! Checked by the tests below and by `tests/crash.rs`.

use std::ops::Deref;

use collie_base::Lsn;

use crate::dir::control::History;

/// Most entries: half a mebibyte of the control file. After more starts after a crash than that, with no log
/// released in between, a replica that missed all of them needs a base backup.
pub(crate) const HISTORIES_MAX: usize = 16_384;
/// Number of entries that stay in any case: as many as a primary sends to a replica
/// (`docs/replication-protocol.md`, `I`), and those of tokens that clients may still hold.
pub(crate) const HISTORIES_KEPT: usize = 500;

const _: () = assert!(HISTORIES_KEPT > 0 && HISTORIES_KEPT <= HISTORIES_MAX, "L3");

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryList(Vec<History>);

impl HistoryList {
    /// Keeps the newest of `histories`, and sorts them: an older program may have left them out of order.
    pub(crate) fn of(mut histories: Vec<History>) -> Self {
        histories.sort_by_key(|history| history.start);
        let mut list = Self(histories);
        list.keep_newest(HISTORIES_MAX);
        list
    }

    /// Adds a history that is not known yet, unless it was forgotten (L4). Returns whether it was added.
    pub(crate) fn note(&mut self, history: History) -> bool {
        let is_forgotten = self.0.first().is_some_and(|oldest| history.start < oldest.start);
        let at = self.0.partition_point(|known| known.start < history.start);
        let mut there = self.0.iter().skip(at).take_while(|known| known.start == history.start);
        if is_forgotten || there.any(|known| known.id == history.id) {
            return false;
        }
        self.0.insert(at, history);
        self.keep_newest(HISTORIES_MAX);
        true
    }

    /// Forgets the histories that ended at or below `log_start`, except the newest [`HISTORIES_KEPT`]: no log that
    /// this node keeps has positions of them, whatever it is kept for. Returns whether there were any.
    pub(crate) fn forget_below(&mut self, log_start: Lsn) -> bool {
        // A history ends where the record before the next one does.
        let ended = self.0.iter().skip(1).take_while(|next| next.previous_end <= log_start).count();
        self.keep_newest((self.0.len() - ended).max(HISTORIES_KEPT))
    }

    /// Forgets the histories that start at or above `at`, where the log is cut.
    pub(crate) fn forget_from(&mut self, at: Lsn) {
        self.0.retain(|history| history.start < at);
    }

    /// Returns whether any entry was removed.
    fn keep_newest(&mut self, count: usize) -> bool {
        let excess = self.0.len().saturating_sub(count);
        self.0.drain(..excess);
        excess > 0
    }
}

impl Deref for HistoryList {
    type Target = [History];

    fn deref(&self) -> &[History] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use collie_base::{HistoryId, Term};

    use super::*;

    /// Returns the history of start number `number`; each starts 100 bytes of log behind the one before.
    fn history(number: u64) -> History {
        let start = 10_000 + number * 100;
        let (term, id) = (Term::new(1), HistoryId::new(number));
        History { term, id, start: Lsn::new(start), previous_end: Lsn::new(start - 50) }
    }

    fn ids(list: &HistoryList) -> (usize, u64, u64) {
        (list.len(), list[0].id.get(), list[list.len() - 1].id.get())
    }

    /// Goal: after tens of thousands of starts after a crash the list is within its bound and has the newest
    /// histories without a gap (L1, L2); a log that reaches further back adds none of the forgotten ones again
    /// (L4). Method: 40,000 starts, as an opening notes them; then all of them once more, as a replay of a log that
    /// was never cut notes them.
    #[test]
    fn tens_of_thousands_of_crash_starts_keep_the_newest_histories_in_order() {
        let mut list = HistoryList::default();
        assert!((0..40_000).all(|number| list.note(history(number))));
        let newest = (HISTORIES_MAX, 40_000 - HISTORIES_MAX as u64, 39_999);
        assert_eq!(ids(&list), newest);
        assert!((0..40_000).all(|number| !list.note(history(number))), "known or forgotten");
        assert_eq!(ids(&list), newest);
        assert!(list.windows(2).all(|pair| pair[0].id.get() + 1 == pair[1].id.get()));
    }

    /// Goal: histories that no log reaches are forgotten, except the newest ones; histories that a log reaches
    /// stay, including the one in which it begins (L1, L3). Method: a thousand histories, and logs that begin on
    /// each side of an end.
    #[test]
    fn histories_below_the_log_are_forgotten_but_for_the_newest() {
        let all = || HistoryList::of((0..1000).map(history).collect());
        for (log_start, oldest) in [
            (Lsn::ZERO, 0),
            (Lsn::new(history(1).previous_end.get() - 1), 0), // ends behind the start of the log
            (history(1).previous_end, 1),
            (history(300).start, 300), // begins in history 300
            (history(500).start, 500),
            (history(999).start, 1000 - HISTORIES_KEPT as u64),
            (Lsn::MAX, 1000 - HISTORIES_KEPT as u64),
        ] {
            let mut list = all();
            assert_eq!(list.forget_below(log_start), oldest > 0, "{log_start}");
            assert_eq!((list[0].id.get(), list[list.len() - 1].id.get()), (oldest, 999), "{log_start}");
        }
        let mut few = HistoryList::of(vec![history(3)]);
        assert!(!few.forget_below(Lsn::MAX));
        assert_eq!(ids(&few), (1, 3, 3));
    }

    /// Goal: a list that an older program left out of order, and too long, is read as the newest ones in order.
    /// Method: a reversed list.
    #[test]
    fn list_out_of_order_is_put_in_order() {
        let list = HistoryList::of((0..20_000).rev().map(history).collect());
        assert_eq!(ids(&list), (HISTORIES_MAX, 20_000 - HISTORIES_MAX as u64, 19_999));
        let mut cut = list;
        cut.forget_from(history(19_000).start);
        assert_eq!(cut.last().map(|history| history.id.get()), Some(18_999));
    }
}
