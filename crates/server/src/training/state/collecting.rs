//! The part of [`Training`] for the collector.

use std::sync::atomic::Ordering::Relaxed;

use collie_obs::{RateTable, Situation};
use collie_train::budget::{Switched, Switches};

use super::Training;
use crate::{
    config, log_lines,
    training::{collection::Collection, rates::May, units::name_of},
};

/// The part of C that samples may cost. They come first, and elastic work gets the rest; without this limit frequently
/// called units would leave nothing.
const SAMPLES_PART: f64 = 0.5;

/// The states of the policy; context rows have the index.
const STATES: [&str; 10] =
    ["primary", "starting", "off", "control", "collecting", "held", "silent", "far", "above_maximum", "calming"];

/// Returns a number in 32 bits; one that is too large becomes infinite.
#[expect(clippy::cast_possible_truncation, reason = "what a row shows has few digits")]
fn single(number: f64) -> f32 {
    number as f32
}

impl Training {
    /// Returns what was collected and learned.
    pub(in crate::training) fn collection(&self) -> &Collection {
        &self.collection
    }

    /// Returns the current settings, and their version, in ms since 1970.
    pub(in crate::training) fn settings(&self) -> (config::Training, u64) {
        let inner = self.inner.lock();
        (inner.settings.clone(), inner.config_epoch)
    }

    /// Adds a change to the log for views.
    pub(in crate::training) fn tell(
        &self,
        subject: &'static str,
        change: impl Into<String>,
        reason: impl Into<String>,
    ) {
        self.note(&mut self.inner.lock(), subject, change, reason);
    }

    /// Uses the packages in the folder of models from now on, and reports refused ones; returns the number of models in
    /// use.
    pub(in crate::training) fn load_models(&self) -> usize {
        let (count, refused) = self.collection.models.load();
        for refused in refused {
            log_lines::warn(&format_args!("model package {} is not used: {}", refused.file, refused.why));
            self.tell("model", format!("{} is refused", refused.file), refused.why);
        }
        count
    }

    /// Lets `decide` set the sampling probabilities of units within what may be sampled; `is_kept` tells whether
    /// samples are kept. No decision outlasts the following period in which it was made (A1).
    pub(in crate::training) fn decide_rates(
        &self,
        is_kept: bool,
        decide: impl FnOnce(May, &Switches) -> (RateTable, Vec<Switched>),
    ) {
        let mut inner = self.inner.lock();
        let may = match &inner.run {
            _ if !is_kept => May::Nothing,
            None if self.everything.load(Relaxed) => May::Everything,
            None => May::Calibrate,
            Some(_) => May::Collect { us_per_s: SAMPLES_PART * self.granted.collect_us_per_s() as f64 },
        };
        let switches = inner.switches;
        let (table, changes) = decide(may, &switches);
        self.sampler.publish(&table);
        for change in changes {
            let name = name_of(change.unit).unwrap_or("?");
            let (what, why) = match change.on {
                true => ("is sampled again", "the grant pays for it"),
                false => ("is left out", "the grant does not pay for it, and it tells least for its cost"),
            };
            self.note(&mut inner, "unit", format!("{name} {what}"), why);
        }
    }

    /// Stops sampling, since the collector ends (A3).
    pub(in crate::training) fn stop_sampling(&self) {
        let _no_tick_meanwhile = self.inner.lock();
        self.sample_nothing();
    }

    /// Returns the context row of a replica; `None` for a primary.
    pub(in crate::training) fn situation(&self) -> Option<Situation> {
        let row = self.policy();
        let epoch = self.inner.lock().config_epoch;
        let code = STATES.iter().position(|state| *state == row.state);
        let single = |number: Option<f64>| number.map_or(0.0, single);
        (row.state != "primary").then(|| Situation {
            commits_per_s: single(row.commits_per_s),
            utilisation: single(row.utilisation),
            config_epoch: epoch,
            policy_state: code.and_then(|code| u32::try_from(code).ok()).unwrap_or(u32::MAX),
            // Unmeasured values are not numbers.
            delay_us: row.delay_us.map_or(f32::NAN, self::single),
            ..Situation::default()
        })
    }

    /// Returns whether the node follows a primary, and whether elastic work may have any time, whether or not there are
    /// sampled reads.
    pub(in crate::training) fn may_fit(&self) -> (bool, bool) {
        let inner = self.inner.lock();
        let decided = inner.run.as_ref().and_then(|run| run.decided);
        (inner.run.is_some(), decided.is_some_and(|decided| decided.elastic_us_per_s > 0.0))
    }
}
