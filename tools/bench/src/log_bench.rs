//! `log_bench`: all sections of `collie-bench log`, in order.

use crate::{
    Machine, Plan, Report, Section,
    measures::{append, frozen, recovery, threads},
};

type Measure = fn(&Plan) -> anyhow::Result<Section>;

const SECTIONS: [(&str, Measure); 4] = [
    ("append", append::measure),
    ("threads", threads::measure),
    ("frozen", frozen::measure),
    ("recovery", recovery::measure),
];

/// Measures the log according to `plan`.
///
/// # Errors
/// An unknown section; those of the operating system for files and directories; those of the log.
pub fn log_bench(plan: &Plan) -> anyhow::Result<Report> {
    for only in &plan.only {
        let known = SECTIONS.map(|(name, _)| name);
        anyhow::ensure!(known.contains(&only.as_str()), "no section {only}: use {}", known.join(", "));
    }
    plan.env.files.create_dir_all(&plan.dir)?;
    let mut sections = Vec::new();
    for (_, measure) in SECTIONS.iter().filter(|(name, _)| plan.wants(name)) {
        sections.push(measure(plan)?);
    }
    Ok(Report { machine: Machine::of(&plan.dir), runs: plan.runs(), sections })
}
