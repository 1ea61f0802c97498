//! [`Sampler`]: the sampler as seen by the code that sets its rates: that of the process, or one of a test.

use std::fmt::Debug;

use collie_obs::{RateTable, Source};

pub(super) trait Sampler: Send + Sync + Debug {
    /// Makes every thread draw with `table` from now on.
    fn publish(&self, table: &RateTable);

    /// Makes `source` the default for threads that are in no scope of their own.
    fn work_for(&self, source: Source);
}

/// The sampler of the process.
#[derive(Debug)]
pub(super) struct Process;

impl Sampler for Process {
    fn publish(&self, table: &RateTable) {
        // Without a clock nothing is sampled, and the view `units` shows that.
        let _has_clock = collie_obs::publish(table);
    }

    fn work_for(&self, source: Source) {
        collie_obs::set_default_source(source);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// Records the calls.
    #[derive(Debug)]
    pub(in crate::training) struct Told {
        told: Mutex<(RateTable, Source)>,
    }

    impl Default for Told {
        fn default() -> Self {
            Self { told: Mutex::new((RateTable::off(), Source::Calibration)) }
        }
    }

    impl Told {
        /// Returns the table in force.
        pub(in crate::training) fn table(&self) -> RateTable {
            self.told.lock().0.clone()
        }

        /// Returns the default source of threads.
        pub(in crate::training) fn source(&self) -> Source {
            self.told.lock().1
        }
    }

    impl Sampler for Told {
        fn publish(&self, table: &RateTable) {
            self.told.lock().0 = table.clone();
        }

        fn work_for(&self, source: Source) {
            self.told.lock().1 = source;
        }
    }
}
