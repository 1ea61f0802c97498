//! `Complexity`: by what a long unit's label is divided before it is learned.

use crate::numbers::bounded;

/// How a unit's work grows with one of its features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Complexity {
    /// The label is learned as it is.
    #[default]
    Constant,
    /// With the feature of this number, such as rows.
    Linear(u16),
    /// With n log n of the feature, as compaction does.
    Linearithmic(u16),
}

impl Complexity {
    /// Returns the feature that it is about.
    pub const fn feature(self) -> Option<u16> {
        match self {
            Self::Constant => None,
            Self::Linear(feature) | Self::Linearithmic(feature) => Some(feature),
        }
    }

    /// Returns how many times the smallest piece of work these features are, at least 1 and finite.
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

    /// Goal: a factor is at least 1, whatever the features. Method: each kind at 0, 1, 8 and beyond the row.
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
