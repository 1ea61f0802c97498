//! The controls of the process's sampler: how much is sampled, for which source, by which clock.

use crate::collector::PROCESS;
use crate::rates::RateTable;
use crate::source::Source;

/// Makes every thread draw with `table` from its next call on. Returns `false` if nothing is sampled, because the
/// processor has no usable counter and no clock was offered.
///
/// # Progress
/// Waits for a short mutex that publishers share with the drain and with new lanes; measured calls wait for none of
/// them.
pub fn publish(table: &RateTable) -> bool {
    PROCESS.publish(table)
}

/// Sets the source for threads without a [`crate::SourceScope`]: [`Source::Calibration`] on a primary, which is the
/// default, and [`Source::Local`] on a replica.
pub fn set_default_source(source: Source) {
    PROCESS.set_default_source(source);
}

/// Offers a clock in nanoseconds for a processor without a usable counter; the first clock offered stays. Its
/// samples carry a flag ([`crate::FLAG_INJECTED_CLOCK`]), and each costs two readings of the clock.
pub fn offer_clock(clock: fn() -> u64) {
    if !collie_sync::has_invariant_ticks() {
        PROCESS.use_clock(clock);
    }
}
