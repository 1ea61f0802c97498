//! `txn_bench`: all sections of `collie-bench txn`, in order.

use crate::{
    Machine, Plan, Report, Section,
    txn::{
        commit_latency, commits, deadlock, hot_row, long_statements, mixes, old_snapshot, read_only, savepoints,
        snapshot, visibility,
    },
};

type Measure = fn(&Plan) -> anyhow::Result<Section>;

const SECTIONS: [(&str, Measure); 11] = [
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

/// Measures transactions as `plan` says. A section that fails is reported as such ([`Report::failed`]), and the others
/// are still measured, since a run is long. A missing server is no failure: its rows are missing, and a note says why.
///
/// # Errors
/// An unknown section; a directory that cannot be made.
pub fn txn_bench(plan: &Plan) -> anyhow::Result<Report> {
    for only in &plan.only {
        let known = SECTIONS.map(|(name, _)| name);
        anyhow::ensure!(known.contains(&only.as_str()), "no section {only}: use {}", known.join(", "));
    }
    plan.env.files.create_dir_all(&plan.dir)?;
    let mut sections = Vec::new();
    for (name, measure) in SECTIONS.iter().filter(|(name, _)| plan.wants(name)) {
        sections.push(measure(plan).unwrap_or_else(|error| Section {
            failure: Some(format!("{error:#}")),
            ..Section::new(name, "nothing was found out")
        }));
    }
    Ok(Report { machine: Machine::of(&plan.dir), runs: plan.runs(), sections })
}
