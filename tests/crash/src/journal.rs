//! `Journal`: the transactions that one client sent, with the answers. It is kept outside the server, in the memory of
//! a process that is not killed.

use std::collections::BTreeMap;

/// The outcome of a transaction, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// COMMIT was answered.
    Acknowledged,
    /// No answer came: it may be committed or not, but never in part.
    Unknown,
    /// It was rolled back, or an error was answered after which it is certainly not committed.
    Aborted,
}

/// The transactions of one client, by sequence number from 1.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    pub(crate) client: u64,
    /// Whether acknowledged commits must survive.
    pub(crate) sync: bool,
    pub(crate) outcomes: Vec<Outcome>,
    /// The SQLSTATEs of errors, with their counts.
    pub(crate) codes: BTreeMap<String, u64>,
}

impl Journal {
    pub(crate) fn new(client: u64, sync: bool) -> Self {
        Self { client, sync, outcomes: Vec::new(), codes: BTreeMap::new() }
    }

    /// Records that a transaction is about to be sent, with an unknown outcome; returns its sequence number.
    pub(crate) fn intend(&mut self) -> u64 {
        self.outcomes.push(Outcome::Unknown);
        self.outcomes.len() as u64
    }

    pub(crate) fn settle(&mut self, outcome: Outcome) {
        if let Some(last) = self.outcomes.last_mut() {
            *last = outcome;
        }
    }

    /// Replaces the outcomes by what was found after a restart; from then on that state must stay, whatever was
    /// answered.
    pub(crate) fn settle_by(&mut self, is_there: impl Fn(u64) -> bool) {
        self.sync = true;
        for (seq, outcome) in (1..).zip(&mut self.outcomes) {
            *outcome = if is_there(seq) { Outcome::Acknowledged } else { Outcome::Aborted };
        }
    }
}
