//! `ask`: answers the questions of a benchmark in order.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Machine, Plan, Report, Section};

/// The name of a question, and what answers it under the settings of a benchmark.
pub(crate) type Question<S> = (&'static str, fn(&S) -> anyhow::Result<Section>);

/// Answers those of `questions` that `plan` names, or all. One that fails or panics is reported as failed
/// ([`Report::failed`]), and the others are still answered, since a run is long.
///
/// # Errors
/// An unknown question; a directory that cannot be made.
pub(crate) fn ask<S>(questions: &[Question<S>], settings: &S, plan: &Plan, runs: usize) -> anyhow::Result<Report> {
    plan.check(&questions.iter().map(|(name, _)| *name).collect::<Vec<_>>())?;
    plan.env.files.create_dir_all(&plan.dir)?;
    let wanted = questions.iter().filter(|(name, _)| plan.wants(name));
    let sections = wanted.map(|(name, measure)| answer(name, || measure(settings))).collect();
    Ok(Report { machine: Machine::of(&plan.dir), runs, sections })
}

/// Returns the section of `measure`, or one that says why it failed.
fn answer(name: &'static str, measure: impl FnOnce() -> anyhow::Result<Section>) -> Section {
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
    use crate::Pace;

    /// Goal: a question that fails or panics says so, the others are answered, and an unknown one is refused with the
    /// names of the known ones. Method: questions that answer, fail and panic; a misspelt name.
    #[test]
    fn a_question_that_fails_says_so() {
        let questions: [Question<()>; 3] = [
            ("rate", |_| Ok(Section::new("rate", "how far?"))),
            ("time", |_| anyhow::bail!("no disk")),
            ("sync", |_| panic!("mistake {}", 1)),
        ];
        let mut plan = Plan::new(&std::env::temp_dir(), Pace::Touch);
        let report = ask(&questions, &(), &plan, 1).unwrap();
        let failures: Vec<_> = report.sections.iter().map(|section| section.failure.as_deref()).collect();
        assert_eq!(failures, [None, Some("no disk"), Some("it panicked: mistake 1")]);
        assert_eq!(report.failed(), ["time", "sync"]);
        plan.only = vec!["rte".to_owned()];
        assert_eq!(ask(&questions, &(), &plan, 1).unwrap_err().to_string(), "no section rte: use rate, time, sync");
    }
}
