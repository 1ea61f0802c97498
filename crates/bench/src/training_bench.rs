//! `training_bench`: all sections of `collie bench training`, in order.

use crate::{Machine, Plan, Report, Section, training::sample};

type Measure = fn(&Plan) -> anyhow::Result<Section>;

const SECTIONS: [(&str, Measure); 1] = [("sample", sample::measure)];

/// Measures what collecting for models costs, as `plan` says. A section that fails says so in the report ([`Report::failed`]), and
/// the others are measured.
///
/// # Errors
/// An unknown section.
pub fn training_bench(plan: &Plan) -> anyhow::Result<Report> {
    for only in &plan.only {
        let known = SECTIONS.map(|(name, _)| name);
        anyhow::ensure!(known.contains(&only.as_str()), "no question {only}: use {}", known.join(", "));
    }
    let mut sections = Vec::new();
    for (name, measure) in SECTIONS.iter().filter(|(name, _)| plan.wants(name)) {
        sections.push(measure(plan).unwrap_or_else(|error| Section {
            failure: Some(format!("{error:#}")),
            ..Section::new(name, "nothing was found out")
        }));
    }
    Ok(Report { machine: Machine::of(&plan.dir), runs: plan.runs(), sections })
}
