//! `Times`: how long each part of the question goes on.

use std::time::Duration;

use super::load::Load;
use super::wrong::Harm;
use crate::training::settings::TrainingSettings;

/// See the module's documentation.
pub(super) struct Times {
    /// Under which loads.
    pub(super) loads: &'static [Load],
    /// Samples are taken for so long under each value of the settings.
    pub(super) record: Duration,
    /// Most samples of a unit that models are fitted to.
    pub(super) rows_max: usize,
    /// A change is waited for so long. A server looks for one ten seconds after its start for the first time.
    pub(super) proposal: Duration,
    /// The loop goes on so long at the most; a trial takes forty seconds of it.
    pub(super) tuned: Duration,
    /// It ends when a canary has gone on for so long: ten minutes would be needed until it is kept.
    pub(super) canary: Duration,
    /// Between two looks at it, under load.
    pub(super) look: Duration,
    /// After a shift of the load a change is watched for so long at the most.
    pub(super) shifted: Duration,
    /// One run with models of the wrong sign goes on so long at the most, and what harm its load does to changes.
    pub(super) wrong: Duration,
    pub(super) wrong_runs: &'static [Harm],
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Times {
    /// Of a run in full, or of one as short as it can be: in that none of the loop's changes can end, and rows say so.
    pub(super) const fn of(settings: &TrainingSettings) -> Self {
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
