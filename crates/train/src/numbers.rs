//! Arithmetic that several modules share: clamping foreign values, hashing bytes, drawing random numbers.

use collie_env::{Random as _, SimRandom};

/// Clamps `value` to `low..=high`; a value that is not a number becomes `if_nan`.
pub(crate) fn bounded(value: f64, low: f64, high: f64, if_nan: f64) -> f64 {
    if value.is_nan() { if_nan } else { value.clamp(low, high) }
}

/// Returns the 64-bit FNV-1a hash, which is the same for the same bytes in every version of the program. Not for
/// secrets.
pub(crate) fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Draws a number in `0.0..1.0`.
pub(crate) fn unit_interval(chance: &SimRandom) -> f64 {
    // An f64 holds 53 bits exactly.
    (chance.u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns `x` without its fraction: 0 for less than 0, and the largest count for more than that.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the conversion saturates, as said")]
pub(crate) fn count_of(x: f64) -> usize {
    x as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no foreign value exceeds its bounds. Method: not a number, infinity, and a value below the range.
    #[test]
    fn bounded_takes_anything() {
        assert_eq!(bounded(f64::NAN, 0.0, 9.0, 7.0), 7.0);
        assert_eq!(bounded(f64::INFINITY, 0.0, 9.0, 7.0), 9.0);
        assert_eq!(bounded(-3.0, 0.0, 9.0, 7.0), 0.0);
    }

    /// Goal: the hash is the published one. Method: its check values of no bytes and of `a`.
    #[test]
    fn fnv64_equals_the_published_check_values() {
        assert_eq!(fnv64(b""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(fnv64(b"a"), 0xAF63_DC4C_8601_EC8C);
    }

    /// Goal: draws cover the interval and stay in it. Method: ten thousand draws from one seed.
    #[test]
    fn unit_interval_is_uniform_enough() {
        let chance = SimRandom::new(5);
        let draws: Vec<f64> = (0..10_000).map(|_| unit_interval(&chance)).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        let mean = draws.iter().sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "mean {mean}");
    }
}
