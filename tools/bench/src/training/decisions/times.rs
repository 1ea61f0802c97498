//! `Times`: the duration of each part of the question.

use std::time::Duration;

use super::load::Load;
use super::wrong::Harm;
use crate::replication::PairSettings;

/// The durations. See the module's documentation.
pub(super) struct Times {
    /// The loads to run under.
    pub(super) loads: &'static [Load],
    /// The time for which samples are taken under each value of the settings.
    pub(super) record: Duration,
    /// The largest number of samples of a unit that a model is fitted to.
    pub(super) rows_max: usize,
    /// The time to wait for a change. A server first looks for one ten seconds after its start.
    pub(super) proposal: Duration,
    /// The time limit of the loop; a trial takes forty seconds of it.
    pub(super) tuned: Duration,
    /// The time of a canary after which the loop ends; it would be kept only after ten minutes.
    pub(super) canary: Duration,
    /// The time between two looks at it, under load.
    pub(super) look: Duration,
    /// The longest time for which a change is watched after a shift of the load.
    pub(super) shifted: Duration,
    /// The time limit of a run with models of the wrong sign; `wrong_runs` is the harm that the load of each does to
    /// changes.
    pub(super) wrong: Duration,
    pub(super) wrong_runs: &'static [Harm],
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Times {
    /// Returns the times of a full run, or of the shortest one, in which none of the loop's changes can end; rows say
    /// so.
    pub(super) const fn of(settings: &PairSettings) -> Self {
        if settings.small {
            return Self {
                loads: &[Load::SmallInMemory],
                record: seconds(1),
                rows_max: 400,
                proposal: seconds(3),
                tuned: seconds(3),
                canary: seconds(1),
                look: seconds(1),
                shifted: seconds(2),
                wrong: seconds(15),
                wrong_runs: &[Harm::OnTrial],
            };
        }
        Self {
            loads: &Load::ALL,
            record: seconds(4),
            rows_max: 4_000,
            proposal: seconds(30),
            tuned: seconds(90),
            canary: seconds(12),
            look: seconds(3),
            shifted: seconds(60),
            wrong: seconds(150),
            wrong_runs: &[Harm::OnTrial, Harm::InCanary, Harm::OnTrial],
        }
    }
}
