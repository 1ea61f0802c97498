//! Faults during decisions over simulated servers.

use collie_env::Fault;
use collie_server::Rehearsal;
use collie_train::decision::Verdict;

use crate::Pace;
use crate::replication::PairSettings;
use crate::report::{Figure, Row, Section};

/// The gain of a good change, and the gain that models promise for it and for a bad one.
const WORTH: f64 = 0.15;
const PROMISED: f64 = 0.2;
/// The time until a canary is running: a decision looks every ten seconds, and a trial takes forty.
const SECONDS: u64 = 70;
/// The time from a look to a kept value.
const TO_THE_END: u64 = 700;
/// The time from a look to a failed trial, or to a canary that has been worse for as long as it may be.
const TO_A_ROLLBACK: u64 = 200;
/// The number of random states of unsynced data in which the disk may be after a power cut.
const DRAWS: u64 = 3;
/// The jumps of clocks: an hour, a day, ten years, in both directions.
const JUMPS_S: [i64; 6] = [3_600, -3_600, 86_400, -86_400, 315_360_000, -315_360_000];
/// The limit from a cut to the old value; `LOSS_S_MAX` is that of a loss (the promise is ten seconds).
const BACK_S_MAX: u64 = 1;
const LOSS_S_MAX: u64 = 10;
/// The smallest loss that must end in that time; smaller ones are within a second's noise.
const LOSS_MIN: f64 = 0.05;

/// The results of the cases of one fault.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    /// Cases; `in_flight` counts those with an open change at the fault (D1).
    cases: u64,
    in_flight: u64,
    /// Values that are not kept and were in force when they must not be.
    survived: u64,
    /// Violations that a rehearsal reports.
    violations: u64,
    /// The longest time until the old value was back, in seconds.
    back_s: u64,
}

impl Tally {
    /// Adds a case after which only kept values may be in force.
    fn add(&mut self, after: &Rehearsal, was_in_flight: bool) {
        self.cases += 1;
        self.in_flight += u64::from(was_in_flight);
        let is_kept = after.verdicts().into_iter().any(Verdict::is_kept);
        self.survived += u64::from(after.is_changed() && !is_kept);
        self.violations += after.violations().len() as u64;
    }
}

/// Returns the number of servers that each fault is tried on.
pub(super) fn servers(settings: &PairSettings) -> u64 {
    match settings.plan.pace {
        Pace::Full => 20,
        Pace::Quick | Pace::Touch => 2,
    }
}

/// Adds a row for each fault.
///
/// # Errors
/// A journal cannot be read.
pub(super) fn rows(settings: &PairSettings, section: &mut Section) -> anyhow::Result<()> {
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

/// Cuts the power at each sync and each second of a decision; the clock jumps by `jump_s` meanwhile.
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

/// Returns a node with a decision that has been running for `seconds`.
fn begun(seed: u64, seconds: u64) -> anyhow::Result<Rehearsal> {
    let mut node = Rehearsal::begin(seed, WORTH, PROMISED)?;
    (0..seconds).for_each(|_| node.second());
    Ok(node)
}

/// Lets the clock jump at a second. The change continues, or is rolled back and repeated after a cool-down, and is
/// kept in the end: setting a clock back does not end decisions (D3 of `collie_train::decision`).
fn clock_jumps(seed: u64, tally: &mut Tally) -> anyhow::Result<()> {
    for (number, jump_s) in JUMPS_S.into_iter().enumerate() {
        // Spread over the seconds of a decision, differently for each server.
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

/// Lets each disk call of a decision fail, alternately with an error and with a full disk; then cuts the power.
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

/// Fills the disk from a second on: an open change then ends, and after a restart no value is in force that is not on
/// disk.
fn full_disk(seed: u64, tally: &mut Tally) -> anyhow::Result<()> {
    for second in 0..SECONDS {
        let mut node = begun(seed, second)?;
        let was_busy = node.is_busy();
        node.set_full(true);
        (0..TO_THE_END).for_each(|_| node.second());
        // A value is kept by its row, for which there was no room.
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

/// Cuts replicas off from a second on: the old value is back at once, and no other is in force while they are away.
fn partitions(seed: u64, tally: &mut Tally) -> anyhow::Result<()> {
    for second in 0..SECONDS {
        let mut node = begun(seed, second)?;
        let was_busy = node.is_busy();
        // A trial alternates between both values: seconds of both belong to it until a pair is judged.
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

/// Tests models of the wrong sign: harm from 2 to 30 %, visible to the trial on every other server, hidden until the
/// canary on the rest.
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

    /// Goal: each fault hits open changes and leaves nothing behind; violations are counted. Method: one server for
    /// each fault; a value in force without a row that keeps it.
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
