//! Do models of the wrong sign harm? They propose the reverse of what would help, and the load gets slower while a
//! value is changed.
//!
//! The harm is a sleep in a client's statement, so that it does not depend on the machine. It occurs either under the
//! changed value of a trial, which must then reject it; or first under the old one, so that the trial passes, and then
//! under the new one during the canary, which must then be rolled back.

use std::time::Duration;

use super::change::{Change, Values};
use super::deciding::{Apply, Deciding, Sampled};
use super::models::put_wrong;
use super::times::Times;
use crate::Section;
use crate::measures::float;
use crate::replication::PairSettings;
use crate::report::{Figure, Row};

/// The rows, ten versions of each hidden from the reader's snapshot: the work that a collector's interval affects.
const ROWS: [&str; 2] =
    ["CREATE TABLE notes (n int PRIMARY KEY, v int)", "INSERT INTO notes SELECT n, 0 FROM generate_series(0, 99) AS n"];
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM notes";
const WRITE: &str = "UPDATE notes SET v = v + 1";
const READS: &str = "SELECT sum((SELECT v FROM notes WHERE n = g % 100)) FROM generate_series(1, 500) AS g";
/// The sleep of a statement that is to be slow, and of one that is to be slower, in seconds.
const SLOW: &str = "SELECT pg_sleep(0.25)";
const SLOWER: &str = "SELECT pg_sleep(0.6)";
/// The longest time that a loss may last, in seconds.
const LOSS_S_MAX: f64 = 10.0;

/// When the load is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    OnTrial,
    InCanary,
}

impl Harm {
    const ALL: [Self; 2] = [Self::OnTrial, Self::InCanary];

    const fn name(self) -> &'static str {
        match self {
            Self::OnTrial => "slow under the new value of the trial",
            Self::InCanary => "slow under the old value of the trial, slower under the new one of the canary",
        }
    }

    /// Returns the next statement while a change is open.
    fn statement(self, is_canary: bool, is_changed: bool) -> &'static str {
        match (self, is_canary, is_changed) {
            (Self::OnTrial, _, true) | (Self::InCanary, false, false) => SLOW,
            (Self::InCanary, true, true) => SLOWER,
            _ => READS,
        }
    }
}

/// The results of one run.
#[derive(Debug)]
struct Outcome {
    changes: Vec<Change>,
    /// Whether a changed value was seen in force.
    was_changed: bool,
    /// Whether the configured values were in force when the change had ended, and after a restart.
    is_restored: bool,
    /// The time from the first slow statement of a canary to the old value, in seconds.
    harmed_s: Option<f64>,
}

pub(super) fn measure(settings: &PairSettings, times: &Times, section: &mut Section) -> anyhow::Result<()> {
    for harm in Harm::ALL {
        let runs = times.wrong_runs.iter().filter(|run| **run == harm);
        let outcomes = runs.map(|harm| one_run(settings, times, *harm)).collect::<anyhow::Result<Vec<_>>>()?;
        for change in outcomes.iter().flat_map(|outcome| &outcome.changes) {
            section.notes.push(format!("models of the wrong sign: {}", change.told()));
        }
        if !outcomes.is_empty() {
            section.rows.push(row(harm, &outcomes));
        }
    }
    Ok(())
}

fn one_run(settings: &PairSettings, times: &Times, harm: Harm) -> anyhow::Result<Outcome> {
    const NAME: &str = "models of the wrong sign";
    let plan = &settings.plan;
    plan.say(&format!("decisions: {NAME}: {}", harm.name()));
    let empty = Deciding::start_new(settings, NAME)?;
    ROWS.iter().try_for_each(|text| empty.pair().connect()?.batch_execute(text).map_err(anyhow::Error::from))?;
    let scratch = empty.stop();
    put_wrong(&plan.env, &scratch.path().join("data"), settings.seed)?;
    let server = Deciding::start(settings, NAME, scratch, (Apply::Canary, Sampled::ByDefault))?;
    let before = server.in_force()?;
    let mut outcome = watch(settings, times.wrong, harm, &server, &before)?;
    outcome.is_restored = server.in_force()? == before || outcome.changes.iter().any(Change::is_open);
    let server = Deciding::start(settings, NAME, server.stop(), (Apply::Canary, Sampled::ByDefault))?;
    outcome.is_restored &= server.in_force()? == before;
    // Reopening the server ends a change that was open when it was stopped.
    outcome.changes = server.changes()?;
    Ok(outcome)
}

/// Runs the load until a change has ended, or time is over.
fn watch(
    settings: &PairSettings,
    time: Duration,
    harm: Harm,
    server: &Deciding,
    before: &Values,
) -> anyhow::Result<Outcome> {
    let plan = &settings.plan;
    let (mut writer, mut reader) = (server.pair().connect()?, server.pair().connect()?);
    reader.batch_execute(SNAPSHOT)?;
    for _ in 0..10 {
        writer.batch_execute(WRITE)?;
    }
    let (begun, mut harmed_at) = (plan.now_ns(), None);
    let mut outcome = Outcome { changes: Vec::new(), was_changed: false, is_restored: false, harmed_s: None };
    loop {
        // Values are read first: a change that ends in between is open in neither look, or in the second.
        let is_changed = server.in_force()? != *before;
        outcome.changes = server.changes()?;
        outcome.was_changed |= is_changed;
        let seconds_since = |then: u64| float(plan.now_ns() - then) / 1e9;
        let newest = outcome.changes.last();
        if let (Some(at), None, false) = (harmed_at, outcome.harmed_s, is_changed) {
            outcome.harmed_s = Some(seconds_since(at));
        }
        let has_ended = newest.is_some_and(|change| !change.is_open());
        if (has_ended && !is_changed) || seconds_since(begun) > time.as_secs_f64() {
            return Ok(outcome);
        }
        let is_canary = newest.is_some_and(|change| change.verdict == "canary");
        let is_open = newest.is_some_and(Change::is_open);
        let text = if is_open { harm.statement(is_canary, is_changed) } else { READS };
        if text == SLOWER {
            harmed_at.get_or_insert(plan.now_ns());
        }
        reader.batch_execute(text)?;
    }
}

/// Counts the runs of one kind. Runs without a final verdict have no target.
fn row(harm: Harm, outcomes: &[Outcome]) -> Row {
    let all = || outcomes.iter().flat_map(|outcome| &outcome.changes);
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let count = |verdict: &str| number(all().filter(|change| change.verdict == verdict).count());
    let restored = number(outcomes.iter().filter(|outcome| outcome.is_restored).count());
    let (proposed, kept) = (number(all().count()), count("kept"));
    let stopped = count("rejected") + count("rolled back");
    let mut row = Row::new("models of the wrong sign", harm.name(), "memory", "auto 16 MiB")
        .figure("changes", Figure::Count(proposed))
        .figure("rejected", Figure::Count(count("rejected")))
        .figure("rolled_back", Figure::Count(count("rolled back")))
        .figure("interrupted", Figure::Count(count("interrupted")))
        .figure("kept", Figure::Count(kept))
        .figure("restored_runs", Figure::Count(restored));
    let harmed: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.harmed_s).collect();
    if !harmed.is_empty() {
        row = row
            .runs("until_old_s", &harmed)
            .target("no loss > 3 % longer than 10 s", harmed.iter().all(|seconds| *seconds <= LOSS_S_MAX));
    }
    let tried = outcomes.iter().all(|outcome| outcome.was_changed);
    if stopped + kept == 0 {
        return row.figure("verdict", Figure::Absent("no change ended in time"));
    }
    let runs = number(outcomes.len());
    row.target(
        "each run's change is tried, and rejected or rolled back",
        tried && kept == 0 && stopped >= runs && stopped == proposed,
    )
    .target("old values in force, and after a restart", restored == runs)
}

#[cfg(test)]
mod tests {
    use super::super::change::tests::change;
    use super::*;

    fn outcome(verdict: &str, is_restored: bool, harmed_s: Option<f64>) -> Outcome {
        Outcome { changes: vec![change(verdict)], was_changed: true, is_restored, harmed_s }
    }

    fn met(outcomes: &[Outcome]) -> Vec<bool> {
        row(Harm::OnTrial, outcomes).targets.iter().map(|target| target.met).collect()
    }

    /// Goal: an interrupted change is no pass, one change that is kept or not restored is a failure, and so is one
    /// that harmed for long. Method: outcomes by hand.
    #[test]
    fn only_changes_that_ended_well_pass() {
        assert_eq!(met(&[outcome("rejected", true, None), outcome("rolled back", true, None)]), [true, true]);
        assert_eq!(met(&[outcome("interrupted", true, None)]), [false; 0]);
        assert_eq!(met(&[outcome("rejected", true, None), outcome("interrupted", true, None)]), [false, true]);
        assert_eq!(met(&[outcome("kept", true, None)]), [false, true]);
        assert_eq!(met(&[outcome("rolled back", false, Some(3.0))]), [true, true, false]);
        assert_eq!(met(&[outcome("rolled back", true, Some(11.0))]), [false, true, true]);
        let untried = Outcome { was_changed: false, ..outcome("rejected", true, None) };
        assert_eq!(met(&[untried]), [false, true]);
        assert_eq!(met(&[]), [false; 0]);
    }

    /// Goal: a load is slow where its kind says so, and nowhere else. Method: both kinds, on trial and in the canary,
    /// under both values.
    #[test]
    fn harm_is_done_where_it_is_said() {
        let of = |harm: Harm| {
            let cases = [(false, false), (false, true), (true, false), (true, true)];
            cases.map(|(is_canary, is_changed)| harm.statement(is_canary, is_changed))
        };
        assert_eq!(of(Harm::OnTrial), [READS, SLOW, READS, SLOW]);
        assert_eq!(of(Harm::InCanary), [SLOW, READS, READS, SLOWER]);
    }
}
