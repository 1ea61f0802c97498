//! `index_bench`: all sections of `collie-bench index`, in order.

use crate::{
    Machine, Plan, Report, Section,
    index::{churn, fill, look, memory},
};

type Measure = fn(&Plan) -> anyhow::Result<Section>;

const SECTIONS: [(&str, Measure); 4] =
    [("fill", fill::measure), ("look", look::measure), ("churn", churn::measure), ("memory", memory::measure)];

/// Measures ordered indexes according to `plan`.
///
/// # Errors
/// An unknown section; a candidate that loses a row; a process that cannot be started.
pub fn index_bench(plan: &Plan) -> anyhow::Result<Report> {
    for only in &plan.only {
        let known = SECTIONS.map(|(name, _)| name);
        anyhow::ensure!(known.contains(&only.as_str()), "no section {only}: use {}", known.join(", "));
    }
    let wanted = SECTIONS.iter().filter(|(name, _)| plan.wants(name));
    let sections = wanted.map(|(_, measure)| measure(plan)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Report { machine: Machine::of(&plan.dir), runs: plan.runs(), sections })
}
