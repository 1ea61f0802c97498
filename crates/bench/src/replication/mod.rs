//! `collie bench replication`: how far a replica is behind, what it costs, and how fast it comes back, beside PostgreSQL's streaming
//! replication on the same machine.
//!
//! | file | noun |
//! |---|---|
//! | `settings.rs` | what is asked for |
//! | `pair.rs` | a primary and its replica, processes of their own |
//! | `watch.rs` | how far the replica is behind, found out in two ways |
//! | `floors.rs` | what nothing can be below |
//! | `rate.rs`, `time.rs` | delay against arrival rate, and over time |
//! | `sync.rs`, `small.rs` | what levels of `synchronous_commit` cost; their load |
//! | `capacity.rs`, `thesis.rs` | replay flat out, by rows and by begin, against the peak that wrote the log |
//! | `catchup.rs` | coming back, and being filled |
//! | `failover.rs` | killing, promoting, writing, coming back |
//!
//! # What always holds
//! - B1. A figure of a pair is given only if the replica showed the same as the primary afterwards, where all twelve conditions of TPC-C
//!   held on both.
//! - B2. Every time is taken on one clock: the benchmark's, or the primary's.
//! - B3. A question that fails says so, and the others are asked.

mod capacity;
mod catchup;
mod failover;
mod floors;
mod pair;
mod rate;
mod settings;
mod small;
mod sync;
mod thesis;
mod time;
mod watch;

pub use settings::ReplicationSettings;

use crate::{Machine, Report, Section};

type Measure = fn(&ReplicationSettings) -> anyhow::Result<Section>;

const QUESTIONS: [(&str, Measure); 6] = [
    ("rate", rate::measure),
    ("time", time::measure),
    ("sync", sync::measure),
    ("capacity", capacity::measure),
    ("catchup", catchup::measure),
    ("failover", failover::measure),
];

/// Asks the questions of `settings`, in order. One that fails says so in the report ([`Report::failed`]), and the others are asked.
/// Without PostgreSQL its rows are missing, and a note says why.
///
/// # Errors
/// An unknown question, settings without meaning; a directory that cannot be made.
pub fn replication_bench(settings: &ReplicationSettings) -> anyhow::Result<Report> {
    settings.check(&QUESTIONS.map(|(name, _)| name))?;
    let plan = &settings.plan;
    plan.env.files.create_dir_all(&plan.dir)?;
    let wanted = |name: &str| settings.questions.is_empty() || settings.questions.iter().any(|asked| asked == name);
    let mut sections = Vec::new();
    for (name, measure) in QUESTIONS.iter().filter(|(name, _)| wanted(name)) {
        sections.push(measure(settings).unwrap_or_else(|error| Section {
            failure: Some(format!("{error:#}")),
            ..Section::new(name, "nothing was found out")
        }));
    }
    Ok(Report { machine: Machine::of(&plan.dir), runs: usize::try_from(settings.runs)?, sections })
}
