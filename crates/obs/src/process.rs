//! The process's sampler as those see it who decide: how much is sampled, for whom, by which clock.

use crate::collector::PROCESS;
use crate::rates::RateTable;
use crate::source::Source;

/// Has every thread draw with `table` from its next call on. `false`: nothing is sampled, since the processor has no counter to
/// go by and no clock was offered.
///
/// # Progress
/// Waits for others that publish; measured calls wait for nobody.
pub fn publish(table: &RateTable) -> bool {
    PROCESS.publish(table)
}

/// Says for whom threads work that are in no [`crate::SourceScope`]: the primary's for [`Source::Calibration`], which is the case
/// unless said otherwise, a replica's for [`Source::Local`].
pub fn set_default_source(source: Source) {
    PROCESS.set_default_source(source);
}

/// Offers a clock in nanoseconds, which is taken where the processor's counter is of no use, once. Samples then say so
/// ([`crate::FLAG_INJECTED_CLOCK`]), and each costs two readings of it.
pub fn offer_clock(clock: fn() -> u64) {
    if !collie_sync::has_invariant_ticks() {
        PROCESS.use_clock(clock);
    }
}
