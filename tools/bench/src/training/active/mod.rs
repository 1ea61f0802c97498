//! How many samples does a model of a given error need? By the method that decides what is sampled: chance alone, P8,
//! or P8 with counts of kinds of calls, as a replica uses it.
//!
//! | file | holds |
//! |---|---|
//! | `population` | units, their calls, and the calls that judge models |
//! | `drawn` | synthetic units |
//! | `learn` | samples in stages, and the error after each |
//!
//! No server is started and no call is executed; the cost of a call is a number.

mod drawn;
mod learn;
mod population;

use anyhow::Context as _;

use self::learn::{Arm, Reached, Step, learn, reached};
use self::population::Population;
use super::bootstrap::Interval;
use crate::replication::PairSettings;
use crate::report::{Figure, Row, Section};
use crate::{Pace, Plan};

/// The number of samples of the first stage.
const FIRST: f64 = 200.0;
/// The target: this many times fewer samples are enough.
const FEWER: f64 = 3.0;

/// Returns the largest number of samples, which doubles with each stage from the first on.
fn taken_max(plan: &Plan) -> f64 {
    let doublings = match plan.pace {
        Pace::Full => 9,
        Pace::Quick => 4,
        Pace::Touch => 3,
    };
    FIRST * f64::from(1_u32 << doublings)
}

/// Answers the question.
///
/// # Errors
/// A model cannot be fitted.
pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "active",
        format!("how many samples do models of a given error need? (mean error of the units, {} seeds)", settings.runs),
    );
    rows(settings, &drawn::population(), &mut section)?;
    section.notes.push(
        "error: that of each unit's model, absolute and summed over calls, by what these calls take altogether; then the mean of the units. \
         A hundredth of the calls may be sampled; every unit's model is fitted anew after each doubling of the samples"
            .to_owned(),
    );
    Ok(section)
}

fn rows(settings: &PairSettings, population: &Population, section: &mut Section) -> anyhow::Result<()> {
    let most = taken_max(&settings.plan);
    let mut curves: Vec<Vec<Vec<Step>>> = Vec::new();
    for arm in Arm::ALL {
        let mut of_arm = Vec::new();
        for run in 0..settings.runs {
            let (name, runs) = (arm.name(), settings.runs);
            settings.plan.say(&format!("active: {}, {name}, seed {} of {runs}", population.name, run + 1));
            of_arm.push(learn(population, arm, settings.seed + u64::from(run), FIRST, most)?);
        }
        curves.push(of_arm);
    }
    for error in &population.errors {
        let ends: Vec<Vec<Reached>> =
            curves.iter().map(|of| of.iter().map(|steps| reached(steps, *error)).collect()).collect();
        let case = format!("{}, error {:.1} %", population.name, 100.0 * error);
        for (arm, ends_of_arm) in Arm::ALL.into_iter().zip(&ends) {
            section.rows.push(row(arm, &case, ends_of_arm, &ends[0], settings.seed)?);
        }
        let short = ends[0].iter().filter(|end| !end.is_reached).count();
        if short > 0 {
            section.notes.push(format!(
                "{case}: sampled uniformly, it was not reached with {most} samples in {short} of {} runs: their ratios are at least those shown",
                settings.runs
            ));
        }
    }
    let names: Vec<&str> = population.units.iter().map(|unit| &*unit.name).collect();
    section.notes.push(format!("{}: {}", population.name, names.join(", ")));
    Ok(())
}

/// Returns by seed how many times fewer samples were enough than for `uniform`; 0 if they were not enough.
fn fewer(ends: &[Reached], uniform: &[Reached], of: fn(&Reached) -> f64) -> Vec<f64> {
    let times = |(end, uniform): (&Reached, &Reached)| if end.is_reached { of(uniform) / of(end) } else { 0.0 };
    ends.iter().zip(uniform).map(times).collect()
}

fn row(arm: Arm, case: &str, ends: &[Reached], uniform: &[Reached], seed: u64) -> anyhow::Result<Row> {
    let each = |of: fn(&Reached) -> f64| ends.iter().map(of).collect::<Vec<_>>();
    let row = Row::new(arm.name(), case, "model", "-")
        .runs("samples_kept", &each(|end| end.kept))
        .runs("samples_taken", &each(|end| end.taken))
        .figure("runs_that_reached_it", Figure::Count(ends.iter().filter(|end| end.is_reached).count() as u64));
    if arm == Arm::Uniform {
        return Ok(row);
    }
    let kept = Interval::of(&fewer(ends, uniform, |end| end.kept), seed).context("no runs")?;
    let taken = Interval::of(&fewer(ends, uniform, |end| end.taken), seed).context("no runs")?;
    let is_met = kept.low >= FEWER;
    Ok(row
        .figure("times_fewer_kept_ci95", kept.figure())
        .figure("times_fewer_taken_ci95", taken.figure())
        .target(format!(">= {FEWER} times fewer kept than uniform (low end of the interval)"), is_met))
}
