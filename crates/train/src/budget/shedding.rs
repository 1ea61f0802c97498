//! `Shedding`: the units that are left out entirely while the grant does not pay for the least probability of all.

use super::UnitBudget;
use crate::UnitId;

/// A unit is restored once the grant pays for this much more than the least, so that it does not change with every
/// tick.
const SPARE: f64 = 1.1;

/// A unit that was shed or restored: a row of the policy's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switched {
    /// The unit.
    pub unit: UnitId,
    /// Whether it was restored.
    pub on: bool,
}

/// The units that are left out, in the order in which they were shed.
#[derive(Clone, Debug, Default)]
pub struct Shedding {
    shed: Vec<UnitId>,
}

impl Shedding {
    /// Returns whether a unit is left out.
    pub fn is_shed(&self, unit: UnitId) -> bool {
        self.shed.contains(&unit)
    }

    /// Applies the grant of a tick to the units that are switched on: sheds those with the least information per
    /// microsecond until the grant pays for the least probability of the others, or restores those that were shed last.
    /// Returns the changes, in order.
    pub fn tick(&mut self, units: &[UnitBudget], grant_us_per_s: f64) -> Vec<Switched> {
        self.shed.retain(|unit| units.iter().any(|known| known.unit == *unit));
        let mut kept: Vec<&UnitBudget> = units.iter().filter(|unit| !self.is_shed(unit.unit)).collect();
        // The unit with the least information comes last; equal ones are ordered by number, so that a run can be
        // repeated.
        let value = |unit: &UnitBudget| unit.information.max(0.0) / unit.cost_us.max(1e-3);
        kept.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.unit.cmp(&b.unit)));
        let mut floor_us: f64 = kept.iter().map(|unit| unit.floor_us_per_s()).sum();
        let mut changes = Vec::new();
        while floor_us > grant_us_per_s || (grant_us_per_s.is_nan() && !kept.is_empty()) {
            let Some(least) = kept.pop() else { break };
            // The sum is computed again, since repeated subtraction would leave a rounding error and never reach 0.
            floor_us = kept.iter().map(|unit| unit.floor_us_per_s()).sum();
            self.shed.push(least.unit);
            changes.push(Switched { unit: least.unit, on: false });
        }
        // A tick that has shed a unit restores none.
        while let (true, Some(last)) = (changes.iter().all(|change| change.on), self.shed.last().copied()) {
            let back = units.iter().find(|unit| unit.unit == last).map_or(0.0, UnitBudget::floor_us_per_s);
            if (floor_us + back) * SPARE > grant_us_per_s || grant_us_per_s.is_nan() {
                break;
            }
            floor_us += back;
            self.shed.pop();
            changes.push(Switched { unit: last, on: true });
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::allocate;

    /// Returns units 1 to 4 whose least sampling costs 10 us per second each; their numbers are their information.
    fn units() -> Vec<UnitBudget> {
        let unit = |number: u8| UnitBudget {
            unit: UnitId::new(number),
            weight: 1.0,
            deviation: 1.0,
            cost_us: 1.0,
            calls_per_s: 10_000.0,
            information: f64::from(number),
        };
        [3, 1, 4, 2].map(unit).into()
    }

    fn change(unit: u8, on: bool) -> Switched {
        Switched { unit: UnitId::new(unit), on }
    }

    /// Goal: units are shed in the order of information per us, and restored in reverse with some to spare. Method: a
    /// grant that falls to nothing and rises again.
    #[test]
    fn units_are_shed_by_information_and_restored_in_reverse() {
        let (mut shedding, units) = (Shedding::default(), units());
        assert_eq!(shedding.tick(&units, 40.0), []);
        assert_eq!(shedding.tick(&units, 25.0), [change(1, false), change(2, false)]);
        assert_eq!(shedding.tick(&units, 30.0), [], "30 us pay for three, with nothing to spare");
        assert_eq!(shedding.tick(&units, f64::NAN), [change(3, false), change(4, false)]);
        assert_eq!(shedding.tick(&units, 0.0), []);
        let all = [change(4, true), change(3, true), change(2, true), change(1, true)];
        assert_eq!(shedding.tick(&units, 44.1), all);
    }

    /// Goal: the units that are not shed can always be paid for. Method: every grant up to the cost of all, allocated
    /// among the others.
    #[test]
    fn what_is_left_is_affordable() {
        let mut shedding = Shedding::default();
        for grant in (0..=50).rev().map(f64::from) {
            shedding.tick(&units(), grant);
            let left: Vec<UnitBudget> = units().into_iter().filter(|unit| !shedding.is_shed(unit.unit)).collect();
            let shares = allocate(&left, grant);
            assert!(shares.iter().all(|share| share.probability > 0.0), "grant {grant}: {shares:?}");
        }
    }

    /// Goal: a unit that a person switched off is not restored. Method: it is shed, taken off the list, and the grant
    /// is raised.
    #[test]
    fn a_unit_that_is_gone_is_forgotten() {
        let mut shedding = Shedding::default();
        shedding.tick(&units(), 35.0);
        let rest: Vec<UnitBudget> = units().into_iter().filter(|unit| unit.unit.get() != 1).collect();
        assert_eq!(shedding.tick(&rest, 1000.0), []);
        assert!(!shedding.is_shed(UnitId::new(1)));
    }
}
