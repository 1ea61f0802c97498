//! `collie-bench replication`: how far a replica is behind, what it costs, and how fast it catches up, compared with
//! PostgreSQL's streaming replication on the same machine.
//!
//! | file | noun |
//! |---|---|
//! | `settings.rs` | the questions, and how they are asked |
//! | `estimate.rs` | about how long that takes |
//! | `pair.rs`, `follower.rs` | a primary and its replica, in separate processes; the forms of a replica |
//! | `relay.rs` | a network between them that can be held |
//! | `live.rs` | a replica in this process that replays by begin, as the thesis' system does |
//! | `watch.rs` | how far the replica is behind, measured in two ways |
//! | `floors.rs` | lower bounds |
//! | `rate.rs`, `time.rs` | delay against arrival rate, and over time |
//! | `delay.rs` | the primary's measurement, compared with what a client sees |
//! | `sync.rs`, `small.rs` | the cost of the levels of `synchronous_commit`; their load |
//! | `capacity.rs`, `thesis.rs` | replay at full rate, by rows and by begin, against the peak that wrote the log |
//! | `catchup.rs` | catching up, and being filled |
//! | `failover.rs` | kill, promotion, first write, return |
//! | `targets.rs` | the findings in a few lines |
//!
//! # What always holds
//! - B1. A figure of a pair is reported only if the replica showed the same rows as the primary afterwards, and all
//!   twelve conditions of TPC-C held on both.
//! - B2. Every duration is measured on one clock: the benchmark's, or the primary's.
//! - B3. A question that fails reports it, and the others are asked.

mod capacity;
pub(crate) mod catchup;
mod delay;
mod estimate;
pub(crate) mod failover;
pub(crate) mod floors;
mod follower;
mod live;
pub(crate) mod pair;
pub(crate) mod rate;
pub(crate) mod relay;
mod settings;
pub(crate) mod small;
mod sync;
mod targets;
mod thesis;
mod time;
pub(crate) mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

pub use settings::{ReplayScheme, ReplicationSettings};
pub use targets::replication_targets;

use crate::{Machine, Report, Section};

type Measure = fn(&ReplicationSettings) -> anyhow::Result<Section>;

const QUESTIONS: [(&str, Measure); 7] = [
    ("delay", delay::measure),
    ("rate", rate::measure),
    ("time", time::measure),
    ("sync", sync::measure),
    ("capacity", capacity::measure),
    ("catchup", catchup::measure),
    ("failover", failover::measure),
];

/// Returns the approximate duration of each question that `settings` asks, in order, from runs on two cores.
///
/// # Errors
/// Those of [`replication_bench`].
pub fn replication_estimate(settings: &ReplicationSettings) -> anyhow::Result<Vec<(&'static str, Duration)>> {
    settings.check(&QUESTIONS.map(|(name, _)| name))?;
    let asked: Vec<&str> = asked(settings).map(|(name, _)| *name).collect();
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    Ok(estimate::estimate(settings, &asked, cores))
}

fn asked(settings: &ReplicationSettings) -> impl Iterator<Item = &'static (&'static str, Measure)> {
    let wanted = |name: &str| settings.questions.is_empty() || settings.questions.iter().any(|asked| asked == name);
    QUESTIONS.iter().filter(move |(name, _)| wanted(name))
}

/// Asks the questions of `settings`, in order. One that fails or panics is reported as failed ([`Report::failed`]), and
/// the others are asked. After each, calls `so_far` with the report so far. Without PostgreSQL its rows are missing,
/// and a note says why.
///
/// # Errors
/// An unknown question, invalid settings; a directory that cannot be created; the first error of `so_far`.
pub fn replication_bench(
    settings: &ReplicationSettings,
    so_far: &mut dyn FnMut(&Report) -> anyhow::Result<()>,
) -> anyhow::Result<Report> {
    settings.check(&QUESTIONS.map(|(name, _)| name))?;
    let plan = &settings.plan;
    plan.env.files.create_dir_all(&plan.dir)?;
    let (machine, runs) = (Machine::of(&plan.dir), usize::try_from(settings.runs)?);
    let mut report = Report { machine, runs, sections: Vec::new() };
    for (name, measure) in asked(settings) {
        report.sections.push(answer(name, || measure(settings)));
        so_far(&report)?;
    }
    Ok(report)
}

/// Returns the section of `measure`, or one that says why it failed (B3).
pub(crate) fn answer(name: &'static str, measure: impl FnOnce() -> anyhow::Result<Section>) -> Section {
    // `measure` only reads what it borrows, and what it started is dropped as it unwinds.
    let measured = catch_unwind(AssertUnwindSafe(measure)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(anyhow::anyhow!("it panicked: {}", text.unwrap_or("without a word")))
    });
    measured.unwrap_or_else(|error| Section {
        failure: Some(format!("{error:#}")),
        ..Section::new(name, "nothing was found out")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: B3, also for a question that panics. Method: questions that answer, fail and panic.
    #[test]
    fn a_question_that_fails_says_so() {
        let answered = answer("rate", || Ok(Section::new("rate", "how far?")));
        assert!(answered.failure.is_none() && answered.question == "how far?");
        let failed = answer("time", || anyhow::bail!("no disk"));
        assert_eq!((failed.name, failed.failure.as_deref()), ("time", Some("no disk")));
        let panicked = answer("sync", || panic!("mistake {}", 1));
        assert_eq!(panicked.failure.as_deref(), Some("it panicked: mistake 1"));
    }
}
