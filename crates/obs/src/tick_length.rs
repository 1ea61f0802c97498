//! Lengths in ticks of the processor's clock, as nanoseconds.

/// Returns `number` as the nearest double.
pub(crate) const fn double(number: u64) -> f64 {
    number as f64
}

/// Converts a number of ticks to nanoseconds.
pub(crate) const fn length_ns(ticks: u64, ns_per_tick: f64) -> u64 {
    whole(double(ticks) * ns_per_tick)
}

const fn whole(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and what is no number is 0")]
    {
        number as u64
    }
}
