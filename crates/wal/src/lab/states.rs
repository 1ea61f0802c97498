//! Crash-state enumeration: for each crash point of each workload it visits the states that the disk may be in, opens
//! the log in each with the real code, and compares the result with the promises (`model`, E1 to E7).
//!
//! Some of the states are salvaged first (`left`), which must yield what the opening does. In the same states the
//! opening is crashed too: its crash points are visited in the same way, and so is the moment after the first commit of
//! the new incarnation.

use std::{
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use collie_env::{CrashPoint, Env, Limits, Picks, SimFiles, SimRandom};

use crate::{
    Level, Log, Lsn,
    lab::{
        Stamp, Violation,
        left::Left,
        model::{Expectation, Yield},
        workload::{self, Coverage, DIR, Layout, Lies, Moment, index, lab_options},
    },
};

/// The extent of an enumeration.
#[derive(Clone, Copy, Debug)]
pub struct StatesPlan {
    /// Runs further workloads until this many states were checked.
    pub states: u64,
    /// The seed of the first workload; it grows by one for each further one.
    pub seed: u64,
    /// Limits for each crash point.
    pub limits: Limits,
    /// Bound for each workload, so that many workloads are visited; 0 for no bound.
    pub states_per_workload: u64,
    /// The opening is crashed in one of this many states; 0 for never.
    pub crash_again_every: u64,
}

impl StatesPlan {
    /// Returns the usual plan for `states` states.
    pub fn new(states: u64, seed: u64) -> Self {
        Self { states, seed, limits: Limits::default(), states_per_workload: 4_000, crash_again_every: 64 }
    }
}

/// Counts of an enumeration so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatesReport {
    /// Workloads, each from its own seed.
    pub workloads: u64,
    /// Their crash points.
    pub crash_points: u64,
    /// States in which the log was opened and compared, including those of second crashes.
    pub states: u64,
    /// Crash points whose states were all visited.
    pub exhausted_points: u64,
    /// States of crashes during or right after an opening in a crash state.
    pub second_crash_states: u64,
    /// States in which a salvage read the same as the opening.
    pub salvaged: u64,
    /// Records that were read back and compared.
    pub records: u64,
    /// Events that the workloads covered.
    pub coverage: Coverage,
}

/// Visits states according to `plan`; calls `progress` after every workload.
///
/// # Errors
/// The first broken promise.
pub fn check_states(plan: &StatesPlan, progress: &mut dyn FnMut(&StatesReport)) -> Result<StatesReport, Violation> {
    let mut report = StatesReport::default();
    let mut seed = plan.seed;
    while report.states < plan.states {
        explore(plan, seed, Lies::default(), &mut report)?;
        progress(&report);
        seed += 1;
    }
    Ok(report)
}

/// Visits the states of one workload.
pub(crate) fn explore(plan: &StatesPlan, seed: u64, lies: Lies, report: &mut StatesReport) -> Result<(), Violation> {
    let most = if plan.states_per_workload == 0 { u64::MAX } else { plan.states_per_workload };
    let states = most.min(plan.states - report.states);
    let violation = |message: String| Violation { seed, states, message };
    let (moments, seen) = workload::run(seed, lies).map_err(violation)?;
    report.workloads += 1;
    report.coverage.add(seen);
    let mut left = states;
    let before_this = report.states - report.second_crash_states;
    for (number, Moment { point, expectation, layout }) in moments.iter().enumerate() {
        report.crash_points += 1;
        report.exhausted_points += u64::from(point.state_count().is_some_and(|count| count <= plan.limits.exhaustive));
        let random = SimRandom::new(seed ^ (number as u64) << 40);
        let mut states = point.states(plan.limits, seed);
        // The remaining states are spread over the moments to come, so that late moments get their share.
        let share = left / (moments.len() - number) as u64;
        draw_first(&mut states, share.max(1), &random);
        let kill = (point.all_kept(), expectation.of_a_kill());
        if !states.contains(&kill.0) {
            states.push(kill.0.clone());
        }
        for picks in &states {
            let expectation = if *picks == kill.0 { &kill.1 } else { expectation };
            let first = report.states - report.second_crash_states - before_this;
            let again = plan.crash_again_every > 0 && first.is_multiple_of(plan.crash_again_every);
            let before = report.states;
            let state = point.state(picks);
            let checked = panic::catch_unwind(AssertUnwindSafe(|| {
                check_state(&state, *layout, expectation, again.then_some(&random), report)
            }));
            checked
                .unwrap_or_else(|_| Err("a panic, with the message above".to_owned()))
                .map_err(|message| violation(format!("moment {number}: {message}; {}", point.describe(picks))))?;
            left = left.saturating_sub(report.states - before);
        }
        if left == 0 {
            break;
        }
    }
    Ok(())
}

/// Keeps `most` of the list, drawn at random if there are more.
fn draw_first(states: &mut Vec<Picks>, most: u64, random: &SimRandom) {
    let most = usize::try_from(most).unwrap_or(usize::MAX).min(states.len());
    if most < states.len() {
        for at in 0..most {
            let other = random.below((states.len() - at) as u64);
            states.swap(at, at + usize::try_from(other).expect("below a usize"));
        }
        states.truncate(most);
    }
}

fn open(disk: &SimFiles, layout: Layout, seed: u64) -> Result<(Log, Yield), String> {
    let opened = Log::open(&Env::over(disk.clone(), seed), Path::new(DIR), layout.apply(lab_options()));
    let (log, found) = opened.map_err(|error| format!("opening is refused: {error}"))?;
    let yielded = Yield::of(&log, &found)?;
    Ok((log, yielded))
}

/// Opens the log on `disk` and compares it with the expectation. With `again` it also crashes that opening, in states
/// drawn from that source.
fn check_state(
    disk: &SimFiles,
    layout: Layout,
    expectation: &Expectation,
    again: Option<&SimRandom>,
    report: &mut StatesReport,
) -> Result<(), String> {
    report.states += 1;
    let left = again.map(|_| Left::of(disk, layout)).transpose()?;
    let points: Arc<Mutex<Vec<CrashPoint>>> = Arc::default();
    if again.is_some() {
        let sink = points.clone();
        disk.watch(move |point| sink.lock().unwrap_or_else(PoisonError::into_inner).push(point));
    }
    let (log, yielded) = open(disk, layout, 1)?;
    report.records += yielded.records.len() as u64;
    expectation.check(&yielded)?;
    expectation.check_consumer(&log, &yielded)?;
    if let Some(left) = left {
        report.salvaged += 1;
        left.compare(&yielded)?;
        let Yield { start, next, incarnation, clean, .. } = yielded;
        let all = Yield { start, next, incarnation, clean, records: left.pieces };
        expectation.check(&all).map_err(|error| format!("salvage by position: {error}"))?;
    }
    let Some(random) = again else {
        log.abandon();
        return Ok(());
    };
    // The first commit of the new incarnation, so that the moment after it is a crash point too.
    let body = expectation.next_body(&yielded);
    let appended = log.writer().commit(3, &body, Level::Disk).map_err(|error| format!("first commit: {error}"))?;
    log.abandon();
    let first = First { layout, expectation, yielded, commit: (appended.start, appended.end, body) };
    let during = std::mem::take(&mut *points.lock().unwrap_or_else(PoisonError::into_inner));
    let after = disk.crash_point();
    let few = Limits { exhaustive: 8, sampled: 4, structured: 4 };
    for (point, committed) in during.iter().map(|point| (point, false)).chain([(&after, true)]) {
        let mut states = point.states(few, random.below(u64::MAX));
        draw_first(&mut states, 6, random);
        for picks in &states {
            report.states += 1;
            report.second_crash_states += 1;
            let more = [More::Wear, More::Salvage, More::Nothing, More::Nothing][index(random, 4)];
            report.salvaged += u64::from(more == More::Salvage);
            first
                .check_second(&point.state(picks), committed, more)
                .map_err(|message| format!("second crash: {message}; {}", point.describe(picks)))?;
        }
    }
    Ok(())
}

/// An additional step with a state of a second crash, besides opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    /// Salvage it first.
    Salvage,
    /// Use up its spares, and crash a third time.
    Wear,
    Nothing,
}

/// The result of the opening of a crash state, and its first commit.
struct First<'a> {
    layout: Layout,
    expectation: &'a Expectation,
    yielded: Yield,
    commit: (Lsn, Lsn, Vec<u8>),
}

impl First<'_> {
    /// Opens again after a crash of that opening (E5, E7), or after its first commit, which was acknowledged then.
    fn check_second(&self, disk: &SimFiles, committed: bool, more: More) -> Result<(), String> {
        let left = (more == More::Salvage).then(|| Left::of(disk, self.layout)).transpose()?;
        let (log, second) = open(disk, self.layout, 2)?;
        self.expectation.check_consumer(&log, &second)?;
        left.map_or(Ok(()), |left| left.compare(&second))?;
        let (before, then) = (self.yielded.records.len(), second.records.len());
        if committed && then == before {
            return Err(format!("acknowledged record {} is lost", self.commit.0));
        }
        let commit = (then > before).then(|| self.commit.clone());
        let expected = self.yielded.records.iter().cloned().chain(commit);
        if !expected.eq(second.records.iter().cloned()) || second.start != self.yielded.start {
            return Err(format!(
                "{before} records from {} after the first opening, {then} from {} after the second",
                self.yielded.start, second.start
            ));
        }
        if committed && second.next < self.commit.1 {
            return Err(format!("position {} is handed out again", second.next));
        }
        if more == More::Wear {
            return wear(disk, self.layout, log, second);
        }
        log.abandon();
        Ok(())
    }
}

/// Writes until the log has turned to every spare, cuts the power, and opens once more: spares that an earlier opening
/// prepared must be usable.
fn wear(disk: &SimFiles, layout: Layout, log: Log, before: Yield) -> Result<(), String> {
    let mut expected = before.records;
    let mut writer = log.writer();
    let mut stamp = Stamp::default();
    // Two blocks each, four to a segment: this fills the current segment, the spares and one more.
    for _ in 0..16 {
        stamp = stamp.next(before.incarnation, log.boundary().get(), 4_050);
        let body = stamp.body(4_050);
        let appended = writer.commit(3, &body, Level::Disk).map_err(|error| format!("using the spares: {error}"))?;
        expected.push((appended.start, appended.end, body));
    }
    log.abandon();
    let point = disk.crash_point();
    let (log, third) =
        open(&point.state(&point.none_kept()), layout, 3).map_err(|error| format!("third crash: {error}"))?;
    log.abandon();
    if let Some(lost) = expected.get(third.records.len()) {
        return Err(format!("third crash: acknowledged record {} is lost", lost.0));
    }
    if third.records != expected {
        return Err("third crash: other records than were written".to_owned());
    }
    Ok(())
}
