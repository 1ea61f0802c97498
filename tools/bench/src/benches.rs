//! The benchmarks: the questions of each, in the order in which they are answered. A question that fails is reported as
//! such ([`Report::failed`]), and the others are answered. What needs a server or a peer that is missing is left out,
//! with a note.

use crate::index::{churn, fill, look, memory};
use crate::kv::{KvSettings, loads, study};
use crate::measures::{append, frozen, recovery, threads};
use crate::questions::{Question, ask};
use crate::replication::{PairSettings, capacity, catchup, failover, rate, sync, time};
use crate::training::{accuracy, active, cost, decisions, knee, overhead, policies, policies_model, safety, sample};
use crate::txn::{
    commit_latency, commits, deadlock, hot_row, long_statements, mixes, old_snapshot, read_only, savepoints, snapshot,
    visibility,
};
use crate::{Plan, Report, replication, training};

const LOG: [Question<Plan>; 4] = [
    ("append", append::measure),
    ("threads", threads::measure),
    ("frozen", frozen::measure),
    ("recovery", recovery::measure),
];

const TXN: [Question<Plan>; 11] = [
    ("snapshot", snapshot::measure),
    ("visibility", visibility::measure),
    ("commits", commits::measure),
    ("commit-latency", commit_latency::measure),
    ("hot-row", hot_row::measure),
    ("old-snapshot", old_snapshot::measure),
    ("savepoints", savepoints::measure),
    ("mixes", mixes::measure),
    ("read-only", read_only::measure),
    ("deadlock", deadlock::measure),
    ("long-statements", long_statements::measure),
];

const INDEX: [Question<Plan>; 4] =
    [("fill", fill::measure), ("look", look::measure), ("churn", churn::measure), ("memory", memory::measure)];

const KV: [Question<KvSettings>; 7] = [
    ("kv-loads", loads::measure),
    ("kv-recover", loads::recover),
    ("kv-log-off", study::without_log),
    ("kv-wal-size", study::log_limits),
    ("kv-families", study::families),
    ("kv-descriptors", study::descriptors),
    ("kv-manual-flush", study::manual_flush),
];

const REPLICATION: [Question<PairSettings>; 7] = [
    ("delay", replication::delay::measure),
    ("rate", rate::measure),
    ("time", time::measure),
    ("sync", sync::measure),
    ("capacity", capacity::measure),
    ("catchup", catchup::measure),
    ("failover", failover::measure),
];

const TRAINING: [Question<PairSettings>; 11] = [
    ("sample", sample::measure),
    ("overhead", overhead::measure),
    ("rate", knee::measure),
    ("time", training::delay::measure),
    ("policies-model", policies_model::measure),
    ("policies", policies::measure),
    ("accuracy", accuracy::measure),
    ("active", active::measure),
    ("decisions", decisions::measure),
    ("safety", safety::measure),
    ("cost", cost::measure),
];

/// Measures the log.
///
/// # Errors
/// An unknown section; a directory that cannot be made. So it is for all benchmarks.
pub fn log_bench(plan: &Plan) -> anyhow::Result<Report> {
    ask(&LOG, plan, plan, plan.runs())
}

/// Measures transactions.
///
/// # Errors
/// Those of [`log_bench`].
pub fn txn_bench(plan: &Plan) -> anyhow::Result<Report> {
    ask(&TXN, plan, plan, plan.runs())
}

/// Measures ordered indexes.
///
/// # Errors
/// Those of [`log_bench`].
pub fn index_bench(plan: &Plan) -> anyhow::Result<Report> {
    ask(&INDEX, plan, plan, plan.runs())
}

/// Measures the key-value engine.
///
/// # Errors
/// Those of [`log_bench`].
pub fn kv_bench(settings: &KvSettings) -> anyhow::Result<Report> {
    ask(&KV, settings, &settings.plan, usize::try_from(settings.runs)?)
}

/// Measures replication.
///
/// # Errors
/// Those of [`log_bench`]; settings that make no sense.
pub fn replication_bench(settings: &PairSettings) -> anyhow::Result<Report> {
    settings.check()?;
    ask(&REPLICATION, settings, &settings.plan, usize::try_from(settings.runs)?)
}

/// Measures what collecting for models costs, and what comes of it.
///
/// # Errors
/// Those of [`log_bench`]; settings that make no sense.
pub fn training_bench(settings: &PairSettings) -> anyhow::Result<Report> {
    settings.check()?;
    ask(&TRAINING, settings, &settings.plan, usize::try_from(settings.runs)?)
}

/// Returns the names of the questions of [`training_bench`].
pub fn training_questions() -> impl Iterator<Item = &'static str> {
    TRAINING.iter().map(|(name, _)| *name)
}
