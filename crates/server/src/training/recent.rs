//! [`Recent`]: the newest samples of each unit, which show what the server is doing now.

use std::collections::VecDeque;

use collie_obs::UNIT_SLOTS;
use collie_samples::SampleRow;
use collie_train::UnitId;
use parking_lot::Mutex;

/// The number of samples kept per unit: about 100 KiB.
const ROWS_MAX: usize = 1000;

/// The newest samples. Lock order: its own lock alone.
#[derive(Debug)]
pub(super) struct Recent {
    by_unit: Mutex<[VecDeque<SampleRow>; UNIT_SLOTS]>,
}

impl Default for Recent {
    fn default() -> Self {
        Self { by_unit: Mutex::new(std::array::from_fn(|_| VecDeque::new())) }
    }
}

impl Recent {
    /// Adds samples, in order; drops the oldest of a unit if there are too many.
    pub(super) fn add(&self, rows: &[SampleRow]) {
        let mut by_unit = self.by_unit.lock();
        for row in rows {
            if let Some(newest) = by_unit.get_mut(usize::from(row.sample.ou)) {
                if newest.len() == ROWS_MAX {
                    newest.pop_front();
                }
                newest.push_back(*row);
            }
        }
    }

    /// Returns the samples of a unit, oldest first.
    pub(super) fn of(&self, unit: UnitId) -> Vec<SampleRow> {
        let by_unit = self.by_unit.lock();
        by_unit.get(usize::from(unit.get())).map(|rows| rows.iter().copied().collect()).unwrap_or_default()
    }

    /// Clears all samples, since another role has other work.
    pub(super) fn clear(&self) {
        self.by_unit.lock().iter_mut().for_each(VecDeque::clear);
    }
}

#[cfg(test)]
mod tests {
    use collie_samples::sample_of_unit;

    use super::*;

    /// Goal: the newest thousand of each unit are kept, in order, and units do not displace each other. Method: more
    /// than that of one, one of another, and none of a third.
    #[test]
    fn the_newest_of_each_unit_are_kept() {
        let recent = Recent::default();
        let row = |unit, time_us| SampleRow { time_us, sample: sample_of_unit(unit, 5) };
        recent.add(&[row(9, 7)]);
        recent.add(&(0..1500).map(|time| row(13, time)).collect::<Vec<_>>());
        let times = |unit| recent.of(UnitId::new(unit)).iter().map(|row| row.time_us).collect::<Vec<_>>();
        assert_eq!((times(13), times(9), times(8)), ((500..1500).collect(), vec![7], vec![]));
        assert!(times(200).is_empty(), "no such unit");
        recent.clear();
        assert!(times(13).is_empty());
    }
}
