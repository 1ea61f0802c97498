//! `Bucket`: calls of about the same size.

/// The binary magnitudes of a call's first three features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket([u8; 3]);

impl Bucket {
    /// Returns the bucket of a call. An absent feature counts as 0; 0 is a magnitude of its own.
    pub fn of(features: &[u32]) -> Self {
        let magnitude = |at| features.get(at).copied().unwrap_or(0_u32).checked_ilog2().map_or(0, |log| log + 1);
        Self([0, 1, 2].map(|at| u8::try_from(magnitude(at)).expect("at most 32")))
    }

    /// Returns the bucket as one number, distinct for each bucket.
    pub fn key(self) -> u32 {
        let [a, b, c] = self.0.map(u32::from);
        a << 16 | b << 8 | c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a bucket is a power of two in each of three features. Method: the ends of some buckets.
    #[test]
    fn buckets_are_binary_magnitudes() {
        assert_eq!(Bucket::of(&[0, 1, 2]), Bucket([0, 1, 2]));
        assert_eq!(Bucket::of(&[3, 4, u32::MAX]), Bucket([2, 3, 32]));
        assert_eq!(Bucket::of(&[7]), Bucket::of(&[4, 0, 0, 99]));
        assert_ne!(Bucket::of(&[1, 2]).key(), Bucket::of(&[2, 1]).key());
    }
}
