//! `Journal`: what one client sent and what it was told. Kept outside the server, in memory nobody kills.

use std::collections::BTreeMap;

/// What became of a transaction, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// COMMIT was answered.
    Acknowledged,
    /// The answer never came: it may be there or not, but never half.
    Unknown,
    /// It was rolled back, or an error was answered that says so.
    Aborted,
}

/// The transactions of one client, by sequence number from 1.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    pub(crate) client: u64,
    /// Whether the client asked for synchronous commits.
    pub(crate) sync: bool,
    pub(crate) outcomes: Vec<Outcome>,
    /// The SQLSTATEs of errors, and how often each came.
    pub(crate) codes: BTreeMap<String, u64>,
}

impl Journal {
    pub(crate) fn new(client: u64, sync: bool) -> Self {
        Self { client, sync, outcomes: Vec::new(), codes: BTreeMap::new() }
    }

    /// Notes that a transaction is about to be sent; it is unknown until something is answered.
    pub(crate) fn intend(&mut self) -> u64 {
        self.outcomes.push(Outcome::Unknown);
        self.outcomes.len() as u64
    }

    pub(crate) fn settle(&mut self, outcome: Outcome) {
        if let Some(last) = self.outcomes.last_mut() {
            *last = outcome;
        }
    }

    /// Takes down what was found of it: from then on it has to stay so, whatever was answered.
    pub(crate) fn settle_by(&mut self, is_there: impl Fn(u64) -> bool) {
        self.sync = true;
        for (seq, outcome) in (1..).zip(&mut self.outcomes) {
            *outcome = if is_there(seq) { Outcome::Acknowledged } else { Outcome::Aborted };
        }
    }
}
