//! What happens to an open change when the load becomes another one?
//!
//! Models of the first load propose. Once a change is on trial, or after half of the time, clients switch from small
//! transactions to overwrites of many rows. From then on throughput is measured in windows, until the change has ended
//! and for as long again under the old value. A loss is judged by these, and the effect of chance alone is reported
//! with it.

use super::change::Change;
use super::deciding::{Apply, Deciding, Sampled};
use super::load::Load;
use super::models::{learn, record};
use super::times::Times;
use crate::Section;
use crate::measures::{float, median};
use crate::replication::PairSettings;
use crate::report::{Figure, Row};

/// Before the shift, and after it.
const LOADS: [Load; 2] = [Load::SmallInMemory, Load::Bulk];
/// The loss that counts.
const LOSS: f64 = 0.03;
/// The longest time that a loss may last, in seconds.
const LOSS_S_MAX: f64 = 10.0;
/// The minimum number of windows that measure the time after a change.
const WINDOWS_MIN: usize = 5;

/// The observations.
#[derive(Debug, Default)]
struct Shifted {
    /// The change that was open at the shift, in its state when watching ended.
    change: Option<Change>,
    /// Throughput from the shift to the end of the change, or of the time: the length of a window and its throughput
    /// per second.
    changing: Vec<(f64, f64)>,
    /// The same afterwards, under the old value.
    after: Vec<(f64, f64)>,
    /// From the shift to the old value, in seconds.
    until_old_s: f64,
}

pub(super) fn measure(settings: &PairSettings, times: &Times, section: &mut Section) -> anyhow::Result<()> {
    let plan = &settings.plan;
    let [first, second] = LOADS;
    let empty = Deciding::start_new(settings, "load shift")?;
    first.prepare(settings, empty.pair())?;
    second.prepare(settings, empty.pair())?;
    record(settings, times, first, &empty)?;
    let scratch = empty.stop();
    learn(&plan.env, &scratch.path().join("data"), times.rows_max)?;
    let server = Deciding::start(settings, "load shift", scratch, (Apply::Canary, Sampled::All))?;
    let before = server.in_force()?;
    let with = PairSettings { time: times.look, ..settings.clone() };
    let seconds = |from: u64, to: u64| float(to - from) / 1e9;
    let begun = plan.now_ns();
    let mut run = 0;
    let mut one = |load: Load| -> anyhow::Result<(f64, f64)> {
        run += 1;
        let from = plan.now_ns();
        let ran = load.run(&with, server.pair(), run)?;
        Ok((seconds(from, plan.now_ns()), ran.per_s))
    };
    let newest_open = || -> anyhow::Result<Option<Change>> { Ok(server.changes()?.pop().filter(Change::is_open)) };
    plan.say("decisions: load shift: before");
    let mut shifted = Shifted::default();
    while shifted.change.is_none() && seconds(begun, plan.now_ns()) < times.proposal.as_secs_f64() {
        one(first)?;
        shifted.change = newest_open()?;
    }
    plan.say("decisions: load shift: after");
    let at = plan.now_ns();
    while shifted.changing.is_empty()
        || (newest_open()?.is_some() && seconds(at, plan.now_ns()) < times.shifted.as_secs_f64())
    {
        shifted.changing.push(one(second)?);
    }
    if shifted.change.is_some() {
        shifted.change = server.changes()?.pop();
    }
    server.decide_no_more(plan, &before)?;
    shifted.until_old_s = seconds(at, plan.now_ns());
    for _ in 0..shifted.changing.len().max(WINDOWS_MIN) {
        shifted.after.push(one(second)?);
    }
    section.rows.push(shifted.row(server.pair().ring()));
    section.notes.push(format!(
        "load shift: {}. From the shift on throughput was measured in windows of {} s: a loss is a window more than 3 % below the median of \
         those after the change, under the old value; the longest run of them is told, and for chance's sake that of the windows after the \
         change, too. On trial both values are in turn, second by second",
        shifted.change.as_ref().map_or_else(|| "nothing was in flight at the shift".to_owned(), Change::told),
        times.look.as_secs_f64()
    ));
    Ok(())
}

/// Returns the longest uninterrupted time, in seconds, in which throughput was more than 3 % below `usual`.
fn longest_loss_s(windows: &[(f64, f64)], usual: f64) -> f64 {
    let mut longest: f64 = 0.0;
    let mut now = 0.0;
    for (seconds, per_s) in windows {
        now = if *per_s < (1.0 - LOSS) * usual { now + seconds } else { 0.0 };
        longest = longest.max(now);
    }
    longest
}

impl Shifted {
    fn row(&self, ring: &str) -> Row {
        let after: Vec<f64> = self.after.iter().map(|(_, per_s)| *per_s).collect();
        let usual = median(&after);
        let loss_s = longest_loss_s(&self.changing, usual);
        let [first, second] = LOADS;
        let row = Row::new("load shift", format!("from {} to {}", first.name(), second.name()), second.level(), ring)
            .runs("per_s", &after)
            .runs("longest_loss_s", &[loss_s])
            .runs("longest_loss_after_s", &[longest_loss_s(&self.after, usual)]);
        match &self.change {
            None => row.figure("until_old_s", Figure::Absent("nothing in flight")),
            Some(change) if change.is_open() => row.figure("until_old_s", Figure::Absent("not ended in time")),
            Some(change) => row
                .runs("until_old_s", &[self.until_old_s])
                .target("not kept", !change.is_in_force())
                .target("no loss > 3 % longer than 10 s", loss_s <= LOSS_S_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::tests::change;
    use super::*;

    /// Goal: a loss is as long as its consecutive windows. Method: two losses with a good window between them; a
    /// window just above the limit.
    #[test]
    fn the_longest_loss_is_of_windows_in_a_row() {
        let windows = [(1.0, 90.0), (1.0, 100.0), (2.0, 90.0), (1.5, 96.9), (1.0, 97.1)];
        assert!((longest_loss_s(&windows, 100.0) - 3.5).abs() < 1e-9);
        assert!(longest_loss_s(&windows, 80.0) < 1e-9);
    }

    /// Goal: claims are made only about a change that was open and has ended. Method: none; one still on trial; one
    /// that was rejected with a short loss, and with a long one.
    #[test]
    fn nothing_is_claimed_of_what_has_not_ended() {
        let targets = |change: Option<Change>, loss_s: f64| {
            let shifted =
                Shifted { change, changing: vec![(loss_s, 50.0)], after: vec![(1.0, 100.0); 5], until_old_s: 4.0 };
            let row = shifted.row("auto 16 MiB");
            row.targets.iter().map(|target| target.met).collect::<Vec<_>>()
        };
        assert_eq!((targets(None, 1.0), targets(Some(change("trial")), 1.0)), (vec![], vec![]));
        assert_eq!(targets(Some(change("rejected")), 1.0), [true, true]);
        assert_eq!(targets(Some(change("rolled back")), 11.0), [true, false]);
    }
}
