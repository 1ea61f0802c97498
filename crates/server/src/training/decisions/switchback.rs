//! [`Switchback`]: seconds under the old and the new value, in pairs: old, new, new, old, and so on, so that a growing
//! or falling load favors neither.

use collie_train::decision::Pair;

use super::{baseline::Baseline, gauge::Second};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Switchback {
    old: f64,
    new: f64,
    /// The number of measured seconds.
    count: usize,
    /// The first second of the present pair.
    first: Option<Second>,
    /// The seconds under the old value.
    under_old: Vec<Second>,
}

impl Switchback {
    /// Begins with a second under the old value.
    pub(super) fn new(old: f64, new: f64) -> Self {
        Self { old, new, count: 0, first: None, under_old: Vec::new() }
    }

    fn is_new(&self) -> bool {
        self.count % 4 == 1 || self.count % 4 == 2
    }

    /// Returns the value for the next second.
    pub(super) fn value(&self) -> f64 {
        if self.is_new() { self.new } else { self.old }
    }

    /// Takes the second that was under [`Switchback::value`]; returns the pair that it completes, and whether the delay
    /// was held in both.
    pub(super) fn add(&mut self, second: Second) -> Option<(Pair, bool)> {
        let is_new = self.is_new();
        if !is_new {
            self.under_old.push(second);
        }
        self.count += 1;
        let first = match self.first.take() {
            Some(first) => first,
            None => {
                self.first = Some(second);
                return None;
            }
        };
        let (old, new) = if is_new { (first, second) } else { (second, first) };
        Some((Pair { old: old.power(), new: new.power() }, old.is_delay_held && new.is_delay_held))
    }

    /// Returns the figures of the seconds under the old value.
    pub(super) fn baseline(&self) -> Baseline {
        Baseline::of(&self.under_old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each second is counted under the value that was in force, and pairs alternate in which value comes first.
    /// Method: eight seconds whose throughput is the value times ten, the delay not held in the sixth.
    #[test]
    fn seconds_are_counted_under_their_value() {
        let mut switchback = Switchback::new(1.0, 2.0);
        let (mut values, mut pairs) = (Vec::new(), Vec::new());
        for at in 0..8 {
            let value = switchback.value();
            values.push(value);
            let (throughput, mean_us, p99_us) = (value * 10.0, 1.0, value);
            let second = Second { throughput, mean_us, p99_us, aborted: 0.0, is_delay_held: at != 5, guard: None };
            pairs.extend(switchback.add(second));
        }
        assert_eq!(values, [1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 1.0]);
        let pair = Pair { old: 10.0, new: 20.0 };
        assert_eq!(pairs, [(pair, true), (pair, true), (pair, false), (pair, true)]);
        assert_eq!(switchback.under_old.len(), 4);
    }
}
