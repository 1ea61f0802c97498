//! `Runs`: the runs that models are fitted to and judged by: a pair, a lone server by the same load, and another pair.
//!
//! Each run has a seed of its own, for its rows and for its requests, and a directory of its own. All go at one rate, which is found on the
//! first pair before anybody takes samples.

use anyhow::Context;

use crate::replication::ReplicationSettings;
use crate::replication::pair::{Arm, Launch, Pair, launch};
use crate::replication::rate;
use crate::training::cores::two_cores;
use crate::training::recorded::Recorded;
use crate::training::recording::{NOT_YET, SAMPLE_EVERYTHING, arguments, record};
use crate::training::settings::TrainingSettings;

/// A run is so much longer than one of another question: models need samples. Where everything is as short as can be, less.
const LONGER: u32 = 15;
const SMALL_LONGER: u32 = 5;
/// Of what the primary reaches flat out: taking all samples is not to fill it.
const PERCENT: f64 = 50.0;
/// Share of the primary's reads that a replica runs again where everything is as short as can be.
const ALL_READS: [&str; 2] = ["--set", "training.read_share=1"];

/// What was recorded.
pub(super) struct Runs {
    pub(super) replica: Recorded,
    pub(super) primary: Recorded,
    pub(super) offline: Recorded,
    pub(super) held_out: Recorded,
    /// Transactions a second of all of them.
    pub(super) rate: f64,
    /// Length of each, in seconds.
    pub(super) seconds: f64,
}

/// What a run is done with.
fn with(settings: &TrainingSettings, run: u64) -> ReplicationSettings {
    let longer = if settings.small { SMALL_LONGER } else { LONGER };
    let (time, seed) = (settings.time * longer, settings.seed + run);
    ReplicationSettings { time, runs: 1, seed, ..settings.replication() }
}

impl Runs {
    /// Runs all of them, one after the other.
    ///
    /// # Errors
    /// A server does not start or keeps no samples; the driver's.
    pub(super) fn record(settings: &TrainingSettings) -> anyhow::Result<Self> {
        let [to_learn, alone, to_judge] = [0, 1, 2].map(|run| with(settings, run));
        let pair = start(settings, "pair to learn from", &to_learn, false)?;
        let per_s =
            rate::peak(&pair, &ReplicationSettings { time: settings.time, ..to_learn.clone() })? * PERCENT / 100.0;
        let (primary, replica) = record(pair, &to_learn, per_s)?;
        let (offline, _nobody) = record(start(settings, "lone server", &alone, true)?, &alone, per_s)?;
        let (held_out, _its_replica) =
            record(start(settings, "pair to judge by", &to_judge, false)?, &to_judge, per_s)?;
        let replica = replica.context("it was started")?;
        Ok(Self { replica, primary, offline, held_out, rate: per_s, seconds: to_learn.time.as_secs_f64() })
    }
}

/// Starts a pair, or a primary alone, that samples everything once it is told to, and loads it.
fn start(settings: &TrainingSettings, name: &str, with: &ReplicationSettings, alone: bool) -> anyhow::Result<Pair> {
    let reads: &[&str] = if settings.small { &ALL_READS } else { &[] };
    let pair = Launch {
        name: name.to_owned(),
        primary: arguments(&[&[SAMPLE_EVERYTHING], &NOT_YET, reads]),
        replica: arguments(&[&NOT_YET]),
        cores: two_cores(),
        alone,
        ..Launch::default()
    };
    let pair = launch(with, Arm::Collie, pair)?;
    pair.load(with)?;
    Ok(pair)
}
