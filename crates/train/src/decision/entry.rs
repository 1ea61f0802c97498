//! `Entry`: a row of the journal with the reasons for its prediction.

use super::{Row, Setting};
use crate::UnitId;

/// A unit whose cost a change is to reduce: the mean of its newest calls as they were, and as they are predicted to
/// become.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// The unit.
    pub unit: UnitId,
    /// Calls per second, before and after.
    pub calls_per_s: (f64, f64),
    /// The cost of a call, in the unit of the label, before and after.
    pub cost: (f64, f64),
    /// Each feature of the unit, before and after.
    pub features: Vec<(f64, f64)>,
}

/// A row, and the reasons for which its change was proposed.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The row.
    pub row: Row,
    /// The units on which the prediction is based; only in the first row of a change.
    pub moved: Vec<Moved>,
}

impl From<Row> for Entry {
    fn from(row: Row) -> Self {
        Self { row, moved: Vec::new() }
    }
}

/// Returns the newest row of each change, in the order of the changes, with the reasons that its first row gives.
pub fn changes(journal: &[Entry]) -> Vec<Entry> {
    let mut changes: Vec<Entry> = Vec::new();
    for entry in journal {
        match changes.iter_mut().find(|change| change.row.id == entry.row.id) {
            Some(change) => change.row = entry.row,
            None => changes.push(entry.clone()),
        }
    }
    changes
}

/// Returns the newest kept value of each setting. An open uses it unless a person has set the setting.
pub fn kept_values(journal: &[Entry]) -> Vec<(Setting, f64)> {
    let kept = |setting: Setting| {
        let of_it = journal.iter().rev().map(|entry| &entry.row).filter(|row| row.setting == setting);
        of_it.filter(|row| row.verdict.is_kept()).map(|row| (setting, row.new)).next()
    };
    Setting::ALL.into_iter().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Verdict, proposal::tests::sound},
        *,
    };

    fn row(id: u64, new: f64, verdict: Verdict) -> Entry {
        let proposal = sound();
        let (setting, gain) = (proposal.setting, proposal.gain);
        Entry::from(Row { id, at_s: id, setting, old: 10.0, new, model_hash: 7, gain, trial_p: None, verdict })
    }

    /// Goal: the newest row of a change counts, a kept value outlasts a later rollback, and the reasons stay with the
    /// change. Method: three changes of one setting: kept, rolled back, in its canary.
    #[test]
    fn the_newest_row_of_a_change_counts() {
        let moved =
            Moved { unit: UnitId::new(2), calls_per_s: (1.0, 2.0), cost: (3.0, 4.0), features: vec![(5.0, 6.0)] };
        let first = Entry { moved: vec![moved.clone()], ..row(1, 20.0, Verdict::Trial) };
        let journal = [
            first,
            row(1, 20.0, Verdict::Canary { until_s: 9 }),
            row(1, 20.0, Verdict::Kept { gain: 0.1 }),
            row(2, 40.0, Verdict::Worse),
            row(3, 10.0, Verdict::Canary { until_s: 9 }),
        ];
        assert_eq!(kept_values(&journal), [(sound().setting, 20.0)]);
        assert_eq!(kept_values(&journal[..2]), []);
        let changes = changes(&journal);
        let verdicts: Vec<(u64, Verdict)> = changes.iter().map(|entry| (entry.row.id, entry.row.verdict)).collect();
        let open = Verdict::Canary { until_s: 9 };
        assert_eq!(verdicts, [(1, Verdict::Kept { gain: 0.1 }), (2, Verdict::Worse), (3, open)]);
        assert_eq!(changes[0].moved, [moved]);
    }
}
