//! `log_bench`: all sections of `collie-bench log`, in order.

use crate::{
    Machine, Plan, Report, Section,
    measures::{append, boundary, copies, durable, frozen, overhead, recovery, resume, threads},
};

type Measure = fn(&Plan) -> anyhow::Result<Section>;

const SECTIONS: [(&str, Measure); 9] = [
    ("append", append::measure),
    ("threads", threads::measure),
    ("boundary", boundary::measure),
    ("frozen", frozen::measure),
    ("durable", durable::measure),
    ("copies", copies::measure),
    ("resume", resume::measure),
    ("recovery", recovery::measure),
    ("overhead", overhead::measure),
];

/// Returns the names of the sections.
pub fn section_names() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().map(|(name, _)| *name)
}

/// Measures the log according to `plan`.
///
/// # Errors
/// An unknown section; those of the operating system for files and directories; those of the log.
pub fn log_bench(plan: &Plan) -> anyhow::Result<Report> {
    for only in &plan.only {
        let known = section_names().collect::<Vec<_>>();
        anyhow::ensure!(known.contains(&only.as_str()), "no section {only}: use {}", known.join(", "));
    }
    plan.env.files.create_dir_all(&plan.dir)?;
    let mut sections = Vec::new();
    for (_, measure) in SECTIONS.iter().filter(|(name, _)| plan.wants(name)) {
        sections.push(measure(plan)?);
    }
    Ok(Report { machine: Machine::of(&plan.dir), runs: plan.runs(), sections })
}
