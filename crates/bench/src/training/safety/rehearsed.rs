//! Faults in the midst of decisions over servers that are made up.

use collie_env::Fault;
use collie_server::Rehearsal;
use collie_train::decision::Verdict;

use crate::Pace;
use crate::report::{Figure, Row, Section};
use crate::training::settings::TrainingSettings;

/// What a good change is worth, and what models promise of it and of a bad one.
const WORTH: f64 = 0.15;
const PROMISED: f64 = 0.2;
/// A decision has a look every ten seconds, forty of a trial, and a canary: so long until the canary is under way.
const SECONDS: u64 = 70;
/// From a look to a value that is kept.
const TO_THE_END: u64 = 700;
/// From a look to a trial that has failed, or a canary that has been worse for as long as it may be.
const TO_A_ROLLBACK: u64 = 200;
/// How the disk may be found after a power cut: so many draws of what was not synced.
const DRAWS: u64 = 3;
/// What clocks jump by: an hour, a day, ten years, each way.
const JUMPS_S: [i64; 6] = [3_600, -3_600, 86_400, -86_400, 315_360_000, -315_360_000];
/// From a cut to the old value, and how long a loss may last (ten seconds are promised).
const BACK_S_MAX: u64 = 1;
const LOSS_S_MAX: u64 = 10;
/// A loss that is to end so soon; smaller ones are within a second's noise.
const LOSS_MIN: f64 = 0.05;

/// What the cases of one fault came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    /// Cases, and those in which a change was in flight when the fault came (D1).
    cases: u64,
    in_flight: u64,
    /// Values that nothing keeps and that were in force when they must not be.
    survived: u64,
    /// What a rehearsal says that must not have been done.
    violations: u64,
    /// Longest time until the old value was back, in seconds.
    back_s: u64,
}

impl Tally {
    /// Adds a case after which only what was kept may be in force.
    fn add(&mut self, after: &Rehearsal, was_in_flight: bool) {
        self.cases += 1;
        self.in_flight += u64::from(was_in_flight);
        let is_kept = after.verdicts().into_iter().any(Verdict::is_kept);
        self.survived += u64::from(after.is_changed() && !is_kept);
        self.violations += after.violations().len() as u64;
    }
}

/// Returns how many servers each fault is tried on.
pub(super) fn servers(settings: &TrainingSettings) -> u64 {
    match settings.plan.pace {
        Pace::Full => 20,
        Pace::Quick | Pace::Touch => 2,
    }
}

/// Adds a row for each fault.
///
/// # Errors
/// A journal cannot be read.
pub(super) fn rows(settings: &TrainingSettings, section: &mut Section) -> anyhow::Result<()> {
    let seeds = || (0..servers(settings)).map(|number| settings.seed + number);
    let said = |what: &str| settings.plan.say(&format!("safety: {what}"));
    said("power cuts");
    let mut cut = Tally::default();
    seeds().try_for_each(|seed| power_cuts(seed, 0, &mut cut))?;
    section.rows.push(row("power cut at each sync and each second", &cut, false));
    said("clocks that jump");
    let mut skewed = Tally::default();
    for seed in seeds() {
        JUMPS_S.iter().try_for_each(|jump_s| power_cuts(seed, *jump_s, &mut skewed))?;
        clock_jumps(seed, &mut skewed)?;
    }
    section.rows.push(row("clock jumps, at each second and over a power cut", &skewed, false));
    said("disks that fail");
    let mut failing = Tally::default();
    seeds().try_for_each(|seed| failing_calls(seed, &mut failing))?;
    section.rows.push(row("each call of the disk fails in turn", &failing, false));
    let mut full = Tally::default();
    seeds().try_for_each(|seed| full_disk(seed, &mut full))?;
    section.rows.push(row("disk full from each second on", &full, false));
    said("replicas that are cut off");
    let mut apart = Tally::default();
    seeds().try_for_each(|seed| partitions(seed, &mut apart))?;
    section.rows.push(row("replicas cut off from each second on", &apart, true));
    said("models of the wrong sign");
    section.rows.push(wrong_sign(settings.seed, servers(settings))?);
    Ok(())
}

fn row(fault: &str, tally: &Tally, is_timed: bool) -> Row {
    let row = Row::new("made up", fault, "-", "-")
        .figure("cases", Figure::Count(tally.cases))
        .figure("changes_in_flight", Figure::Count(tally.in_flight))
        .figure("canary_values_left", Figure::Count(tally.survived))
        .figure("violations", Figure::Count(tally.violations))
        .target("faults hit changes in flight", tally.in_flight > 0)
        .target("no canary value is left, no invariant broken", tally.survived + tally.violations == 0);
    if !is_timed {
        return row;
    }
    row.figure("back_after_max_s", Figure::Count(tally.back_s))
        .target(format!("the old value is back within {BACK_S_MAX} s"), tally.back_s <= BACK_S_MAX)
}

/// Power cuts at each sync and each second of a decision; the clock jumps meanwhile.
fn power_cuts(seed: u64, jump_s: i64, tally: &mut Tally) -> anyhow::Result<()> {
    let mut node = Rehearsal::begin(seed, WORTH, PROMISED)?;
    for _ in 0..SECONDS {
        let was_busy = node.is_busy();
        node.second();
        for point in node.crash_points() {
            for draw in 0..DRAWS {
                tally.add(&node.after(&point, draw, jump_s)?, was_busy || node.is_busy());
            }
        }
    }
    tally.violations += node.violations().len() as u64;
    Ok(())
}

/// Returns a node in which a decision has been under way for so long.
fn begun(seed: u64, seconds: u64) -> anyhow::Result<Rehearsal> {
    let mut node = Rehearsal::begin(seed, WORTH, PROMISED)?;
    (0..seconds).for_each(|_| node.second());
    Ok(node)
}

/// The clock jumps at a second: the change goes on, or is rolled back and made again a cool-down later, and is kept in the end: a clock that was
/// set back does not end decisions (D3 of `collie_train::decision`).
fn clock_jumps(seed: u64, tally: &mut Tally) -> anyhow::Result<()> {
    for (number, jump_s) in JUMPS_S.into_iter().enumerate() {
        // Over the seconds of a decision, another one for each server.
        let mut node = begun(seed, (seed * 7 + number as u64 * 11) % SECONDS)?;
        let was_busy = node.is_busy();
        node.move_clock(jump_s);
        let is_kept = (0..2 * TO_THE_END).any(|_| {
            node.second();
            node.verdict().is_some_and(Verdict::is_kept)
        });
        tally.add(&node, was_busy);
        tally.violations += u64::from(!is_kept);
    }
    Ok(())
}

/// Each call of the disk on the way of a decision fails, by an error and by a full disk in turn; then the power goes.
fn failing_calls(seed: u64, tally: &mut Tally) -> anyhow::Result<()> {
    let calls = {
        let mut node = Rehearsal::begin(seed, WORTH, PROMISED)?;
        let before = node.calls();
        (0..TO_THE_END).for_each(|_| node.second());
        node.calls() - before
    };
    for call in 1..=calls {
        let mut node = Rehearsal::begin(seed, WORTH, PROMISED)?;
        let fault = if call % 2 == 0 { Fault::Eio } else { Fault::Enospc };
        let due = node.calls() + call;
        node.fail_call(call, fault);
        let mut was_busy = false;
        for _ in 0..TO_THE_END {
            let is_before = node.calls() < due;
            was_busy |= is_before && node.is_busy();
            node.second();
        }
        for point in node.crash_points() {
            tally.add(&node.after(&point, call, 0)?, was_busy);
        }
        tally.violations += node.violations().len() as u64;
    }
    Ok(())
}

/// The disk takes nothing more from a second on: what is in flight then ends, and nothing that is not on disk is in force in the next life.
fn full_disk(seed: u64, tally: &mut Tally) -> anyhow::Result<()> {
    for second in 0..SECONDS {
        let mut node = begun(seed, second)?;
        let was_busy = node.is_busy();
        node.set_full(true);
        (0..TO_THE_END).for_each(|_| node.second());
        // A value is kept by its row: there was no room for one.
        tally.survived += u64::from(node.is_changed());
        for point in node.crash_points() {
            tally.add(&node.after(&point, second, 0)?, was_busy);
        }
        node.set_full(false);
        node.second();
        tally.add(&node, was_busy);
    }
    Ok(())
}

/// Replicas are cut off from a second on: the old value is back at once, and no other is in force while they are away.
fn partitions(seed: u64, tally: &mut Tally) -> anyhow::Result<()> {
    for second in 0..SECONDS {
        let mut node = begun(seed, second)?;
        let was_busy = node.is_busy();
        // A trial has one value, then the other: seconds of both belong to it until a pair is judged.
        let is_canary = matches!(node.verdict(), Some(Verdict::Canary { .. }));
        node.set_delay_held(false);
        let mut back_s = 0;
        while node.is_changed() && back_s < TO_THE_END {
            node.second();
            back_s += 1;
        }
        if is_canary {
            tally.back_s = tally.back_s.max(back_s);
        }
        (0..TO_THE_END).for_each(|_| node.second());
        tally.add(&node, was_busy);
    }
    Ok(())
}

/// Models of the wrong sign: harm from 2 to 30 %, seen by the trial on every other server, hidden until the canary on the rest.
fn wrong_sign(first: u64, servers: u64) -> anyhow::Result<Row> {
    let (mut rejected, mut rolled_back, mut other, mut changed, mut longest_s) = (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    for number in 0..servers {
        let harm = 0.02 + 0.28 * (number + 1) as f64 / servers as f64;
        let hidden = number % 2 == 0;
        let mut node = Rehearsal::begin(first + number, if hidden { harm } else { -harm }, PROMISED)?;
        let mut in_a_row = 0;
        for _ in 0..TO_A_ROLLBACK {
            node.second();
            if matches!(node.verdict(), Some(Verdict::Canary { .. })) {
                node.set_worth(-harm);
            }
            in_a_row = if node.is_changed() { in_a_row + 1 } else { 0 };
            if harm >= LOSS_MIN {
                longest_s = longest_s.max(in_a_row);
            }
        }
        let verdicts = node.verdicts();
        let count = |of: fn(Verdict) -> bool| verdicts.iter().filter(|verdict| of(**verdict)).count() as u64;
        rejected += count(|verdict| verdict.word() == "rejected");
        rolled_back += count(Verdict::is_rollback);
        other += count(Verdict::is_kept);
        changed += u64::from(node.is_changed());
    }
    let count = Figure::Count;
    Ok(Row::new("made up", "models of the wrong sign", "-", "-")
        .figure("cases", count(servers))
        .figure("rejected", count(rejected))
        .figure("rolled_back", count(rolled_back))
        .figure("kept", count(other))
        .figure("canary_values_left", count(changed))
        .figure("loss_longest_s", count(longest_s))
        .target("all rejected or rolled back", other + changed == 0 && rejected > 0 && rolled_back > 0)
        .target(format!("no loss above 5 % for longer than {LOSS_S_MAX} s"), longest_s <= LOSS_S_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each fault hits changes in flight and leaves nothing; what would be wrong is counted. Method: one server for each fault; a value
    /// that is in force without a row that keeps it.
    #[test]
    fn faults_are_counted_and_leave_nothing() {
        let cases: [fn(u64, &mut Tally) -> anyhow::Result<()>; 5] =
            [|seed, tally| power_cuts(seed, -86_400, tally), clock_jumps, failing_calls, full_disk, partitions];
        for (number, case) in cases.into_iter().enumerate() {
            let mut tally = Tally::default();
            case(5, &mut tally).unwrap();
            assert!(tally.in_flight > 0 && tally.cases >= tally.in_flight, "case {number}: {tally:?}");
            assert_eq!((tally.survived, tally.violations), (0, 0), "case {number}: {tally:?}");
            assert!(tally.back_s <= BACK_S_MAX, "case {number}: {tally:?}");
        }
        let mut tally = Tally::default();
        let node = (0..SECONDS).map(|second| begun(5, second).unwrap()).find(Rehearsal::is_changed).expect("a trial");
        tally.add(&node, true);
        assert_eq!((tally.cases, tally.survived), (1, 1), "a value of a change in flight is one that nothing keeps");
    }
}
