//! `Runs`: the runs that models are fitted to and judged by: a pair for each policy, a single server under the same
//! load, and another pair.
//!
//! The pairs to learn from have the same rows and the same requests at the same times; the single server and the
//! judging pair have separate seeds. Each run has its own directory. All use one rate, which is measured on the first
//! pair before any samples are taken.

use anyhow::Context;
use collie_train::policy::PolicyKind;

use crate::replication::PairSettings;
use crate::replication::pair::{Arm, Launch, Pair, launch};
use crate::replication::rate;
use crate::servers::SAMPLE_EVERYTHING;
use crate::training::arms::policy_name;
use crate::training::cores::two_cores;
use crate::training::recorded::Recorded;
use crate::training::recording::{NOT_YET, arguments, record};

/// The policies that a replica collects under, the default last.
const POLICIES: [PolicyKind; 4] = [PolicyKind::Nothing, PolicyKind::HardLimit, PolicyKind::Sigma, PolicyKind::Headroom];
/// The factor by which a run is longer than those of other questions: models need samples. Less in small runs.
const LONGER: u32 = 15;
const SMALL_LONGER: u32 = 10;
/// The rate in percent of the primary's maximum, so that taking all samples does not saturate it.
const PERCENT: f64 = 50.0;
/// The share of the primary's reads that a replica replays: ten times the default, so that half a minute gives enough
/// of them. All of them in small runs.
const READS: [&str; 2] = ["--set", "training.read_share=0.1"];
const ALL_READS: [&str; 2] = ["--set", "training.read_share=1"];

/// The samples of a pair whose replica collected by a policy.
pub(super) struct Taught {
    pub(super) policy: PolicyKind,
    pub(super) replica: Recorded,
    pub(super) primary: Recorded,
}

/// The samples of all runs.
pub(super) struct Runs {
    /// By policy, the default last.
    pub(super) taught: Vec<Taught>,
    pub(super) offline: Recorded,
    pub(super) held_out: Recorded,
    /// Transactions per second of each run.
    pub(super) rate: f64,
    /// Length of each, in seconds.
    pub(super) seconds: f64,
}

/// Returns the settings of run number `run`.
fn with(settings: &PairSettings, run: u64) -> PairSettings {
    let longer = if settings.small { SMALL_LONGER } else { LONGER };
    let (time, seed) = (settings.time * longer, settings.seed + run);
    PairSettings { time, runs: 1, seed, ..settings.clone() }
}

impl Runs {
    /// Records all runs, one after the other.
    ///
    /// # Errors
    /// A server does not start or keeps no samples; the errors of the driver.
    pub(super) fn record(settings: &PairSettings) -> anyhow::Result<Self> {
        let [to_learn, alone, to_judge] = [0, 1, 2].map(|run| with(settings, run));
        let (mut taught, mut known) = (Vec::new(), None);
        for policy in POLICIES {
            let name = format!("pair to learn from, {}", policy_name(policy));
            let pair = start(settings, &name, &to_learn, Some(policy))?;
            let per_s = match known {
                Some(per_s) => per_s,
                None => {
                    let short = PairSettings { time: settings.time, ..to_learn.clone() };
                    rate::peak(&pair, &short)? * PERCENT / 100.0
                }
            };
            known = Some(per_s);
            let (primary, replica) = record(pair, &to_learn, per_s)?;
            taught.push(Taught { policy, replica: replica.context("it was started")?, primary });
        }
        let per_s = known.context("there is a policy")?;
        let (offline, _nobody) = record(start(settings, "lone server", &alone, None)?, &alone, per_s)?;
        let judge = start(settings, "pair to judge by", &to_judge, Some(PolicyKind::Headroom))?;
        let (held_out, _its_replica) = record(judge, &to_judge, per_s)?;
        Ok(Self { taught, offline, held_out, rate: per_s, seconds: to_learn.time.as_secs_f64() })
    }
}

/// Starts a primary that takes all samples once it is asked to, with a replica that collects by `policy` or without
/// one, and loads it.
fn start(settings: &PairSettings, name: &str, with: &PairSettings, policy: Option<PolicyKind>) -> anyhow::Result<Pair> {
    let by_policy = policy.map(|policy| format!("training.collection_policy={}", policy.name()));
    let by_policy: Vec<&str> = by_policy.iter().flat_map(|setting| ["--set", setting.as_str()]).collect();
    let reads = if settings.small { &ALL_READS } else { &READS };
    let pair = Launch {
        name: name.to_owned(),
        primary: arguments(&[&[SAMPLE_EVERYTHING], &NOT_YET, reads]),
        replica: arguments(&[&NOT_YET, &by_policy[..]]),
        cores: two_cores(),
        alone: policy.is_none(),
        ..Launch::default()
    };
    let pair = launch(with, Arm::Collie, pair)?;
    pair.load(with)?;
    Ok(pair)
}
