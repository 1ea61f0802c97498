//! `Complexity`: the divisor of a long unit's label before it is learned.

use crate::numbers::bounded;

/// How a unit's work grows with one of its features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Complexity {
    /// The label is learned as it is.
    #[default]
    Constant,
    /// The work grows linearly with the feature of this number, such as rows.
    Linear(u16),
    /// The work grows as n log n of the feature, as for compaction.
    Linearithmic(u16),
}

impl Complexity {
    /// Returns the number of the feature.
    pub const fn feature(self) -> Option<u16> {
        match self {
            Self::Constant => None,
            Self::Linear(feature) | Self::Linearithmic(feature) => Some(feature),
        }
    }

    /// Returns the work for these features as a multiple of the smallest one, at least 1 and finite.
    pub fn of(self, features: &[f64]) -> f64 {
        let n = self.feature().and_then(|feature| features.get(usize::from(feature))).copied().unwrap_or(1.0);
        let n = bounded(n, 1.0, 1e15, 1.0);
        match self {
            Self::Constant => 1.0,
            Self::Linear(_) => n,
            Self::Linearithmic(_) => n * n.log2().max(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the factor is at least 1 for any features. Method: each kind at 0, 1, 8 and for a missing feature.
    #[test]
    fn complexity_is_at_least_one() {
        for (complexity, at_8) in
            [(Complexity::Constant, 1.0), (Complexity::Linear(0), 8.0), (Complexity::Linearithmic(0), 24.0)]
        {
            assert_eq!(complexity.of(&[8.0]), at_8);
            assert_eq!([complexity.of(&[0.0]), complexity.of(&[1.0]), complexity.of(&[])], [1.0; 3]);
        }
    }
}
