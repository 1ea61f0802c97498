//! `training_bench`: all sections of `collie-bench training`, in order.

use crate::replication::answer;
use crate::training::{
    accuracy, active, cost, decisions, delay, diverging, exported, hardware, knee, overhead, policies, policies_model,
    safety, sample, settings::TrainingSettings,
};
use crate::{Machine, Report, Section};

type Measure = fn(&TrainingSettings) -> anyhow::Result<Section>;

const SECTIONS: [(&str, Measure); 14] = [
    ("sample", sample::measure),
    ("overhead", overhead::measure),
    ("rate", knee::measure),
    ("time", delay::measure),
    ("policies-model", policies_model::measure),
    ("policies", policies::measure),
    ("accuracy", accuracy::measure),
    ("hardware", hardware::measure),
    ("active", active::measure),
    ("decisions", decisions::measure),
    ("safety", safety::measure),
    ("cost", cost::measure),
    ("fig-1-1", diverging::measure),
    ("fig-5-3", exported::measure),
];

/// The questions, in the order in which they are answered.
pub const TRAINING_QUESTIONS: [&str; SECTIONS.len()] = {
    let (mut names, mut at) = ([""; SECTIONS.len()], 0);
    while at < names.len() {
        names[at] = SECTIONS[at].0;
        at += 1;
    }
    names
};

/// Answers the questions of `settings` about collecting for models, in order. One that fails, or panics, is reported
/// as such ([`Report::failed`]), and the others are still answered. After each, `so_far` is called with the report up
/// to then.
///
/// # Errors
/// An unknown question or settings that make no sense; a directory that cannot be made; the first error of `so_far`.
pub fn training_bench(
    settings: &TrainingSettings,
    so_far: &mut dyn FnMut(&Report) -> anyhow::Result<()>,
) -> anyhow::Result<Report> {
    settings.check(&TRAINING_QUESTIONS)?;
    let plan = &settings.plan;
    plan.env.files.create_dir_all(&plan.dir)?;
    let (machine, runs) = (Machine::of(&plan.dir), usize::try_from(settings.runs)?);
    let mut report = Report { machine, runs, sections: Vec::new() };
    for (name, measure) in SECTIONS.iter().filter(|(name, _)| plan.wants(name)) {
        report.sections.push(answer(name, || measure(settings)));
        so_far(&report)?;
    }
    Ok(report)
}
