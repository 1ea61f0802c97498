//! What does each policy do to a real replica's delay? A primary and its replica under TPC-C at a fixed rate, and disturbances that can be made
//! on one machine, without collection, with all that is offered, and with P6.
//!
//! | file | holds |
//! |---|---|
//! | `disturbance` | what is done to a pair, and for how long |
//! | `course` | one run: the load, the disturbances one after the other, and what was seen meanwhile |
//! | `judge` | windows of one run against the same windows without collection |
//! | `rows` | figures and targets |
//!
//! # What always holds
//! - D1. A delay is what the primary says of its replica, asked every 20 ms, whatever the policy: a policy does not judge itself.
//! - D2. Runs of a pair have the same requests at the same moments, and the same disturbances.
//! - D3. A replica that was stopped goes on, whatever fails.

mod course;
mod disturbance;
mod judge;
mod rows;

use anyhow::Context as _;
use collie_train::policy::PolicyKind;

use self::course::{Observed, Stage};
use self::disturbance::Disturber;
use super::bootstrap::in_balanced_order;
use super::cores::{note_cores, two_cores};
use super::settings::TrainingSettings;
use crate::replication::ReplicationSettings;
use crate::replication::pair::{Arm, Launch, launch};
use crate::replication::rate::peak;
use crate::report::Section;

/// Policies that are compared; the first is what the others are judged by.
const ARMS: [PolicyKind; 3] = [PolicyKind::Nothing, PolicyKind::Always, PolicyKind::Headroom];
/// Of what the primary reaches flat out: what TPC-C asks for.
const PERCENT: f64 = 50.0;

/// Returns how many runs each policy has: half as many as are asked for, since each has a pair of phases for every disturbance.
fn runs(settings: &TrainingSettings) -> u32 {
    settings.runs.div_ceil(2)
}

/// Answers the question.
///
/// # Errors
/// No program was named that serves; as of the pair, the driver, and what disturbs.
pub(crate) fn measure(settings: &TrainingSettings) -> anyhow::Result<Section> {
    let (cores, replication) = (two_cores(), settings.replication());
    let mut section = Section::new(
        "policies",
        format!(
            "what does each policy do to a replica's delay while it is disturbed? (TPC-C, {} warehouses, {PERCENT} % of flat out, begun by \
             chance, {} runs of each policy)",
            settings.warehouses,
            runs(settings)
        ),
    );
    let pair = launch(&replication, Arm::Collie, Launch { cores, ..Launch::default() })?;
    pair.load(&replication)?;
    let mut disturber = Disturber::new(&settings.plan, &pair, cores.map(|[_, replica]| replica), settings.small)?;
    let stage = Stage::new(&pair, settings);
    stage.choose(PolicyKind::Nothing)?;
    let rate = PERCENT / 100.0 * peak(&pair, &ReplicationSettings { runs: 1, ..replication.clone() })?;
    let mut all = in_balanced_order(ARMS.len(), runs(settings), |arm, run| {
        settings.plan.say(&format!("policies: {}, run {} of {}", ARMS[arm].name(), run + 1, runs(settings)));
        stage.choose(ARMS[arm])?;
        let observed = stage.course(&mut disturber, run, rate)?;
        pair.until_even(&replication)?;
        Ok(observed)
    })?
    .into_iter();
    stage.choose(PolicyKind::Nothing)?;
    pair.check(&replication, &mut section)?;
    let without: Vec<Observed> = all.next().context("there is a first policy")?;
    section.rows.extend(rows::rows(ARMS[0], &without, &without, pair.ring(), settings.seed));
    for (arm, of) in ARMS.into_iter().skip(1).zip(all) {
        section.rows.extend(rows::rows(arm, &of, &without, pair.ring(), settings.seed));
    }
    note_cores(&mut section, cores);
    section.notes.extend(rows::notes(settings));
    Ok(section)
}
