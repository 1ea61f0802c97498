//! `Tuned`: the result of a server that decides about its settings under a load.

use std::time::Duration;

use super::change::{Change, Values, values_after};
use super::deciding::Deciding;
use super::load::Load;
use super::times::Times;
use crate::replication::PairSettings;

/// The result. See the module's documentation.
pub(super) struct Tuned {
    pub(super) changes: Vec<Change>,
    /// The new values of a canary or a kept change; all others as configured.
    pub(super) values: Values,
    /// The duration of the loop.
    pub(super) time: Duration,
}

/// The state of the loop at a look.
#[derive(Clone, Copy, Debug)]
struct Look<'a> {
    newest: Option<&'a Change>,
    /// The time since the start.
    waited: Duration,
    /// The time since the newest change was first seen as a canary.
    canary: Option<Duration>,
}

impl Look<'_> {
    /// Returns whether no further change is to be expected: after a change that has ended there is none for ten
    /// minutes.
    fn is_last(&self, times: &Times) -> bool {
        let is_done = match self.newest.map(|change| change.verdict.as_str()) {
            None => self.waited >= times.proposal,
            Some("trial") => false,
            Some("canary") => self.canary.is_some_and(|canary| canary >= times.canary),
            Some(_) => true,
        };
        is_done || self.waited >= times.tuned
    }
}

/// Lets `server` decide under `load` until a change has ended or has been a canary for a while, or time is over. Then
/// decisions stop, and the values `before` are restored.
///
/// # Errors
/// Those of the driver.
pub(super) fn tune(
    settings: &PairSettings,
    times: &Times,
    load: Load,
    server: &Deciding,
    before: &Values,
) -> anyhow::Result<Tuned> {
    let plan = &settings.plan;
    let with = PairSettings { time: times.look, ..settings.clone() };
    let (begun, mut canary_since, mut run) = (plan.now_ns(), None, 0);
    loop {
        load.run(&with, server.pair(), run)?;
        let changes = server.changes()?;
        let now = plan.now_ns();
        let newest = changes.last();
        if newest.is_some_and(|change| change.verdict == "canary") {
            canary_since.get_or_insert(now);
        }
        let said = newest.map_or_else(|| "nothing proposed yet".to_owned(), Change::told);
        plan.say(&format!("decisions: {}: {said}", load.name()));
        let since = |then: u64| Duration::from_nanos(now - then);
        let look = Look { newest, waited: since(begun), canary: canary_since.map(since) };
        if look.is_last(times) {
            let time = look.waited;
            server.decide_no_more(plan, before)?;
            return Ok(Tuned { values: values_after(before, &changes), time, changes });
        }
        run += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::tests::change;
    use super::*;

    /// Goal: the loop is watched as long as a change may come, and no longer. Method: looks by hand, before and after
    /// the limit in each state.
    #[test]
    fn the_loop_ends_when_nothing_else_comes() {
        let times = Times::of(&PairSettings::training("/tmp".as_ref()));
        let is_last = |verdict: Option<&str>, waited: u64, canary: Option<u64>| {
            let newest = verdict.map(change);
            let (waited, canary) = (Duration::from_secs(waited), canary.map(Duration::from_secs));
            Look { newest: newest.as_ref(), waited, canary }.is_last(&times)
        };
        assert!(!is_last(None, 29, None) && is_last(None, 30, None));
        assert!(!is_last(Some("trial"), 60, None) && is_last(Some("trial"), 90, None));
        assert!(!is_last(Some("canary"), 60, Some(11)) && is_last(Some("canary"), 60, Some(12)));
        assert!(is_last(Some("rejected"), 50, None) && is_last(Some("rolled back"), 50, Some(3)));
    }
}
