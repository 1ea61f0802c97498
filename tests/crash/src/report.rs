//! `Report`: the result of a run, as text for people and as figures that `night` adds up.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// The figures of a run without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// The number of faults, or of states, waves or rounds.
    pub(crate) cycles: u64,
    /// Killed processes.
    pub(crate) kills: u64,
    /// Power cuts.
    pub(crate) cuts: u64,
    /// Replicas that became primaries.
    pub(crate) promotions: u64,
    /// Transactions whose outcome or reads were checked.
    pub(crate) checked: u64,
    /// Transactions that were acknowledged to a client.
    pub(crate) acknowledged: u64,
}

impl Figures {
    pub(crate) const NAMES: [&str; 6] = ["cycles", "kills", "cuts", "promotions", "checked", "acknowledged"];

    pub(crate) const fn values(self) -> [u64; 6] {
        let Self { cycles, kills, cuts, promotions, checked, acknowledged } = self;
        [cycles, kills, cuts, promotions, checked, acknowledged]
    }

    const fn of_values([cycles, kills, cuts, promotions, checked, acknowledged]: [u64; 6]) -> Self {
        Self { cycles, kills, cuts, promotions, checked, acknowledged }
    }

    /// Adds the figures of another run.
    pub(crate) fn add(&mut self, other: Self) {
        let (mine, theirs) = (self.values(), other.values());
        *self = Self::of_values(std::array::from_fn(|at| mine[at] + theirs[at]));
    }

    /// Writes them to a file, for the process that started this one.
    pub(crate) fn write(self, path: &Path) -> anyhow::Result<()> {
        let text = self.values().map(|value| value.to_string()).join(" ");
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads figures that [`Figures::write`] wrote.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let values: Result<Vec<u64>, _> = text.split(' ').map(str::parse).collect();
        let values = values.ok().and_then(|values| <[u64; 6]>::try_from(values).ok());
        Ok(Self::of_values(values.with_context(|| format!("no figures: {text}"))?))
    }
}

/// The result of a run without a violation.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) words: String,
    pub(crate) figures: Figures,
}

impl Report {
    pub(crate) const fn new(words: String, figures: Figures) -> Self {
        Self { words, figures }
    }
}

impl From<String> for Report {
    fn from(words: String) -> Self {
        Self { words, figures: Figures::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: figures survive a file unchanged and add up one by one, and a file without figures is refused. Method:
    /// figures that are all different.
    #[test]
    fn figures_come_through_a_file_and_add_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("figures");
        let figures = Figures { cycles: 1, kills: 2, cuts: 3, promotions: 4, checked: 5, acknowledged: 6 };
        figures.write(&path).unwrap();
        let mut sum = Figures::read(&path).unwrap();
        assert_eq!(sum, figures);
        sum.add(figures);
        assert_eq!(sum.values(), [2, 4, 6, 8, 10, 12]);
        assert_eq!(Figures::NAMES.len(), sum.values().len());
        for bad in ["", "1 2 3", "1 2 3 4 5 x"] {
            std::fs::write(&path, bad).unwrap();
            assert!(Figures::read(&path).is_err(), "{bad}");
        }
    }
}
