//! How does each policy affect a real replica's delay? A primary and its replica under TPC-C at a fixed rate, and
//! disturbances that one machine can produce, under P0 to P6, each as a server runs it.
//!
//! | file | holds |
//! |---|---|
//! | `disturbance` | the disturbances of a pair and their durations |
//! | `stopped` | a stopped process |
//! | `course` | one run: the load, the disturbances one after the other, and the observations meanwhile |
//! | `judge` | windows of one run compared with the same windows without collection |
//! | `rows` | figures and targets |
//!
//! # What always holds
//! - D1. A delay is what the primary measures of its replica, commit by commit, read every 20 ms, under every policy:
//!   a policy does not judge itself.
//! - D2. Runs of a pair have the same requests at the same times, and the same disturbances.
//! - D3. A stopped replica is continued and held traffic is delivered, whatever fails.

mod course;
mod disturbance;
mod judge;
mod rows;
mod stopped;

use anyhow::Context as _;
use collie_train::policy::PolicyKind;

use self::course::{Observed, Stage};
use self::disturbance::Disturber;
use super::arms::policy_name;
use super::bootstrap::in_balanced_order;
use super::cores::{note_cores, two_cores};
use super::kept::kept_in;
use super::knee::knee;
use super::recorded::Window;
use crate::Pace;
use crate::measures::median;
use crate::replication::PairSettings;
use crate::replication::pair::{Arm, Launch, launch};
use crate::report::Section;

/// The compared policies; the first is the baseline of the others.
const ARMS: [PolicyKind; 7] = PolicyKind::ALL;
/// The shares of the knee, which both nodes sustain without collection: the rate of TPC-C, and the highest rate of all
/// disturbances.
const PERCENT: f64 = 50.0;
const PEAK_PERCENT: f64 = 90.0;
/// The number of runs whose median is the knee.
const KNEE_RUNS: u32 = 3;

/// Returns the number of runs of a policy: half the requested number, since each has a pair of phases for every
/// disturbance. Policies without a target, except the baseline, have half of that.
fn runs(settings: &PairSettings, arm: PolicyKind) -> u32 {
    let runs = settings.runs.div_ceil(2);
    if matches!(arm, PolicyKind::Nothing | PolicyKind::Headroom) { runs } else { (runs / 2).max(1) }
}

/// Answers the question.
///
/// # Errors
/// No server program was named; the errors of the pair, of the driver, and of the disturbances.
pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let cores = two_cores();
    let runs = |arm: PolicyKind| runs(settings, arm);
    let mut section = Section::new(
        "policies",
        format!(
            "what does each policy do to a replica's delay while it is disturbed? (TPC-C, {} warehouses, {PERCENT} % of the knee, begun by \
             chance, {} runs without collection and of P6, {} of each other policy)",
            settings.warehouses,
            runs(PolicyKind::Headroom),
            runs(PolicyKind::Always)
        ),
    );
    let pair = launch(settings, Arm::Collie, Launch { cores, relayed: true, ..Launch::default() })?;
    pair.load(settings)?;
    let stage = Stage::new(&pair, settings);
    stage.choose(PolicyKind::Nothing)?;
    let knees = if settings.plan.pace == Pace::Full { KNEE_RUNS } else { 1 };
    let knees = (0..knees).map(|run| knee(&pair, settings, run)).collect::<anyhow::Result<Vec<_>>>()?;
    let of_knee = |percent: f64| percent / 100.0 * median(&knees);
    let more_per_s = of_knee(PEAK_PERCENT - PERCENT);
    let mut disturber = Disturber::new(settings, &pair, cores.map(|[_, replica]| replica), more_per_s)?;
    let all = in_balanced_order(ARMS.len(), runs(PolicyKind::Nothing), |arm, run| {
        let policy = ARMS[arm];
        if run >= runs(policy) {
            return Ok(None);
        }
        settings.plan.say(&format!("policies: {}, run {} of {}", policy_name(policy), run + 1, runs(policy)));
        stage.choose(policy)?;
        Ok(Some(stage.course(&mut disturber, run, of_knee(PERCENT))?))
    })?;
    stage.choose(PolicyKind::Nothing)?;
    pair.check(settings, &mut section)?;
    let mut all: Vec<Vec<Observed>> = all.into_iter().map(|of| of.into_iter().flatten().collect()).collect();
    drop(disturber);
    let ring = pair.ring();
    // The last sample files are closed when the replica exits.
    let (_, replica) = pair.stop();
    let replica = replica.context("the pair has a replica")?;
    let windows: Vec<Window> = all.iter().flatten().map(|of| of.during).collect();
    let kept = kept_in(&settings.plan.env, &replica.path().join("data"), &windows)?;
    for (of, kept) in all.iter_mut().flatten().zip(kept) {
        of.kept = kept;
    }
    let without = all.first().context("there is a first policy")?;
    for (arm, of) in ARMS.into_iter().zip(&all) {
        section.rows.extend(rows::rows(arm, of, without, ring, settings.seed));
    }
    note_cores(&mut section, cores);
    section.notes.push(format!(
        "the knee, which both sustain together without collection: {:.0} transactions a second",
        median(&knees)
    ));
    section.notes.extend(rows::notes(settings));
    Ok(section)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Goal: every policy is an arm; the one with targets and the baseline have all runs, and each has at least one.
    /// Method: full, short and quick settings.
    #[test]
    fn policies_without_targets_have_fewer_runs() {
        assert_eq!((ARMS[0], ARMS.contains(&PolicyKind::Headroom)), (PolicyKind::Nothing, true));
        let full = PairSettings::training(Path::new("/nowhere"));
        let of = |settings: &PairSettings| ARMS.map(|arm| runs(settings, arm));
        assert_eq!(of(&full), [5, 2, 2, 2, 2, 2, 5]);
        assert_eq!(of(&full.clone().short_training()), [3, 1, 1, 1, 1, 1, 3]);
        assert_eq!(of(&full.quick_training()), [1; 7]);
    }
}
