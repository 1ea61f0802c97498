//! How much do decisions gain on real servers, and do wrong models harm?
//!
//! | file | noun |
//! |---|---|
//! | `load` | the loads of servers, and an expert's settings for them |
//! | `deciding` | a server that decides, and its reports about its settings |
//! | `change` | a row of its decisions; values of settings |
//! | `models` | models of a load's samples, and models of the wrong sign |
//! | `tuned` | the result of a server that decides under a load |
//! | `compared` | that result compared with the configured values and an expert's |
//! | `shift` | an open change while the load becomes another one |
//! | `wrong` | models of the wrong sign |
//! | `times` | the duration of each part |
//!
//! # What always holds
//! - D1. Nothing is claimed about a change that has not ended: a run that was too short for one says so in its row,
//!   without a target.
//! - D2. Results of decisions are taken from the servers' own reports: `collie_training.decisions` and `/metrics`.

mod change;
mod compared;
mod deciding;
mod load;
mod models;
mod shift;
mod times;
mod tuned;
mod wrong;

use self::load::Load;
use self::times::Times;
use super::cores::{note_cores, two_cores};
use crate::Section;
use crate::replication::PairSettings;
use crate::report::{Figure, Row};

/// The goal: this gain in throughput, on this many of the loads.
const GOAL: f64 = 1.3;
const GOAL_LOADS: usize = 3;

/// Lets servers decide about their settings under each load, compares the results, shifts a load, and tests wrong
/// models.
///
/// # Errors
/// A server does not start, keeps no samples or does not answer.
pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let times = Times::of(settings);
    let mut section = Section::new(
        "decisions",
        format!(
            "what do decisions gain, and do wrong models harm? ({} clients, flat out, a lone server; as configured, as an expert sets it, and as \
             it tunes itself within {} s, {} runs of {} s each in balanced order; ratios with the 95 % interval of their median)",
            settings.clients,
            times.tuned.as_secs_f64(),
            settings.runs,
            settings.time.as_secs_f64()
        ),
    );
    let gained = times
        .loads
        .iter()
        .map(|load| compared::measure(settings, &times, *load, &mut section))
        .collect::<anyhow::Result<Vec<_>>>()?;
    section.rows.push(goal(&gained));
    shift::measure(settings, &times, &mut section)?;
    wrong::measure(settings, &times, &mut section)?;
    section.notes.push(format!(
        "models are of samples of the same load, {} s under each of three values of all settings, and the loop samples every call: by default a \
         primary samples a thousandth, and it would be minutes until it proposed anything. A canary is taken for what the loop came to after \
         {} s: it would be kept after ten minutes. One change is made in that time, by a factor of two",
        times.record.as_secs_f64(),
        times.canary.as_secs_f64()
    ));
    section.notes.push(
        "where the loop came to nothing else than what is configured, its runs are measured all the same: their ratio is what chance does"
            .to_owned(),
    );
    note_cores(&mut section, two_cores());
    Ok(section)
}

/// Returns the row of all loads. A subset of the loads has no target.
fn goal(gained: &[f64]) -> Row {
    let reached = gained.iter().filter(|ratio| **ratio >= GOAL).count();
    let row = Row::new("all loads", "loop", "both", "auto 16 MiB")
        .runs("throughput_ratio", gained)
        .figure("loads_at_goal", Figure::Count(u64::try_from(reached).unwrap_or(u64::MAX)));
    match gained.len() == Load::ALL.len() {
        true => row.target("goal: 1.3x on 3 of 5", reached >= GOAL_LOADS),
        false => row,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the target applies only to all five loads. Method: three of five at it; two; three loads alone.
    #[test]
    fn the_goal_is_of_all_loads() {
        let met = |gained: &[f64]| goal(gained).targets.first().map(|target| target.met);
        assert_eq!(met(&[1.3, 1.0, 1.4, 0.9, 1.5]), Some(true));
        assert_eq!(met(&[1.3, 1.0, 1.4, 0.9, 1.29]), Some(false));
        assert_eq!((met(&[1.3, 1.3, 1.3]), goal(&[1.3]).median("loads_at_goal")), (None, Some(1.0)));
    }
}
