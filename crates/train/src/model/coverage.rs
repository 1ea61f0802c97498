//! `Coverage`: whether a model still holds for new samples.

use std::collections::VecDeque;

/// The number of newest samples that count.
const WINDOW: usize = 1000;

/// A model with a smaller share of samples inside their intervals is stale.
const STALE_BELOW: f64 = 0.85;

/// Counts how many of the newest samples lay inside their predicted interval.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    newest: VecDeque<bool>,
    inside: usize,
}

impl Coverage {
    /// Adds whether a sample lay inside.
    pub fn add(&mut self, is_inside: bool) {
        if self.newest.len() == WINDOW && self.newest.pop_front() == Some(true) {
            self.inside -= 1;
        }
        self.newest.push_back(is_inside);
        self.inside += usize::from(is_inside);
    }

    /// Returns the share of the newest samples that lay inside; `None` without samples.
    pub fn share(&self) -> Option<f64> {
        (!self.newest.is_empty()).then(|| self.inside as f64 / self.newest.len() as f64)
    }

    /// Returns the number of samples that count.
    pub fn samples(&self) -> usize {
        self.newest.len()
    }

    /// Returns whether decisions must not use the model: fewer than 85 % of the last 1,000 samples were inside. With
    /// fewer samples a model is not judged yet.
    pub fn is_stale(&self) -> bool {
        self.newest.len() == WINDOW && (self.inside as f64) < STALE_BELOW * WINDOW as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a model is stale below 85 % of the last thousand, and becomes fresh again. Method: samples with known
    /// places in the window.
    #[test]
    fn a_model_is_stale_below_its_coverage() {
        let mut coverage = Coverage::default();
        assert_eq!(coverage.share(), None);
        (0..150).for_each(|_| coverage.add(false));
        (0..850).for_each(|_| coverage.add(true));
        assert!(!coverage.is_stale(), "850 of 1000");
        (0..150).for_each(|_| coverage.add(false));
        assert!(!coverage.is_stale(), "the same 850");
        coverage.add(false);
        assert!(coverage.is_stale(), "849");
        assert_eq!((coverage.share(), coverage.samples()), (Some(0.849), 1000));
        (0..149).for_each(|_| coverage.add(true));
        (0..1000).for_each(|_| coverage.add(true));
        assert!(!coverage.is_stale());
        let mut young = Coverage::default();
        (0..999).for_each(|_| young.add(false));
        assert!(!young.is_stale(), "not judged yet");
    }
}
