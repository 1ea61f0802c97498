//! [`Log`]: the newest changes of the permission to collect.

use std::collections::VecDeque;

use collie_sql::catalog::system::PolicyChange;

/// The number of changes kept.
const CHANGES_MAX: usize = 1000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Log {
    changes: VecDeque<PolicyChange>,
}

impl Log {
    /// Adds a change; drops the oldest one if there are too many.
    pub(super) fn add(&mut self, change: PolicyChange) {
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
    }

    /// Returns the changes, oldest first.
    pub(super) fn all(&self) -> Vec<PolicyChange> {
        self.changes.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the newest thousand are kept, in order. Method: one more than that.
    #[test]
    fn the_newest_thousand_are_kept() {
        let mut log = Log::default();
        for at_us in 0..1001 {
            let (change, reason) = (String::new(), String::new());
            log.add(PolicyChange { at_us, subject: "grant", change, reason, grant_us_per_s: 0 });
        }
        let times: Vec<i64> = log.all().iter().map(|change| change.at_us).collect();
        assert_eq!(times, (1..1001).collect::<Vec<_>>());
    }
}
