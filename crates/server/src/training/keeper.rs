//! [`Keeper`]: the handling of drained samples: frequent kinds of calls are thinned; the rest is written to files, and
//! passed to the models that predict it and to the list of the newest samples.
//!
//! # Invariants
//! - K1. A kept sample carries the product of the probabilities of being drawn and of being kept (TRAIN-2).
//! - K2. A failure of files stops nothing except collection (`collie_samples` S3); [`Keeper::state`] gives the reason.

use std::path::{Path, PathBuf};

use collie_env::{Env, Random as _, SimRandom};
use collie_obs::{ContextRow, Sample, UNIT_SLOTS};
use collie_samples::{Origin, SampleRow, SampleSink, SinkOptions, SinkState};
use collie_train::budget::{Bucket, Thinner};

use super::{judge::Judge, models::Loaded, recent::Recent};

/// The time between two attempts to open the files, in ns.
const OPEN_EVERY_NS: u64 = 60_000_000_000;

/// The samples kept so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kept {
    /// Kept samples, by unit.
    pub(super) by_unit: [u64; UNIT_SLOTS],
    /// Rows in files of this process.
    pub(super) written_rows: u64,
    /// Rows that were dropped because they could not be written.
    pub(super) lost_rows: u64,
    /// Bytes of all files.
    pub(super) bytes: u64,
}

impl Kept {
    /// Returns the sum of both; the bytes are those of `later`, which counts all files.
    pub(super) fn and(&self, later: &Self) -> Self {
        let mut both = later.clone();
        both.by_unit.iter_mut().zip(self.by_unit).for_each(|(count, before)| *count += before);
        both.written_rows += self.written_rows;
        both.lost_rows += self.lost_rows;
        both
    }
}

/// The files, or why there are none.
#[derive(Debug)]
enum Files {
    Open(Box<SampleSink>),
    Failed { reason: SinkState, at_ns: u64 },
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Keeper {
    env: Env,
    data: PathBuf,
    origin: Origin,
    options: SinkOptions,
    files: Files,
    thinners: Vec<Thinner>,
    chance: SimRandom,
    kept: Kept,
    rows: Vec<SampleRow>,
    samples: Vec<Sample>,
}

impl Keeper {
    /// Keeps samples under the data directory `data`.
    pub(super) fn new(env: &Env, data: &Path, origin: Origin, options: SinkOptions) -> Self {
        let mut keeper = Self {
            data: data.to_owned(),
            files: Files::Failed { reason: SinkState::Collecting, at_ns: 0 },
            thinners: (0..UNIT_SLOTS).map(|_| Thinner::default()).collect(),
            // Random numbers are drawn often, and no secret depends on them.
            chance: SimRandom::new(env.random.u64()),
            kept: Kept::default(),
            rows: Vec::new(),
            samples: Vec::new(),
            env: env.clone(),
            origin,
            options,
        };
        keeper.open();
        keeper
    }

    fn open(&mut self) {
        let opened = SampleSink::open(&self.env, &self.data, self.origin.clone(), self.options);
        self.files = match opened {
            Ok(sink) => Files::Open(Box::new(sink)),
            Err(error) => {
                let reason = SinkState::Stopped { reason: error.to_string() };
                Files::Failed { reason, at_ns: self.env.clock.now_ns() }
            }
        };
    }

    /// Takes drained samples; returns the kept ones, in order.
    pub(super) fn take(&mut self, samples: &[Sample], contexts: &[ContextRow]) -> &[SampleRow] {
        let time_us = u64::try_from(self.env.clock.wall_us()).unwrap_or(0);
        let now_s = self.env.clock.now_ns() as f64 / 1e9;
        self.rows.clear();
        self.samples.clear();
        for sample in samples {
            let Some(thinner) = self.thinners.get_mut(usize::from(sample.ou)) else { continue };
            let draw = (self.chance.u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let bucket = Bucket::of(&sample.features[..3]);
            let Some(kept) = thinner.keep(bucket, f64::from(sample.p), now_s, draw) else { continue };
            // K1
            let sample = Sample { p: single(kept.probability), ..*sample };
            self.kept.by_unit[usize::from(sample.ou)] += 1;
            self.rows.push(SampleRow { time_us, sample });
            self.samples.push(sample);
        }
        if let Files::Open(sink) = &mut self.files {
            sink.add(&self.samples);
            sink.add_contexts(contexts);
        }
        &self.rows
    }

    /// Writes rows that are old enough, and retries after a failure. Called about ten times a second.
    pub(super) fn tick(&mut self, config_epoch: u64) {
        let is_due = match &mut self.files {
            Files::Open(sink) => {
                sink.set_config_epoch(config_epoch);
                sink.tick();
                false
            }
            Files::Failed { at_ns, .. } => self.env.clock.now_ns().saturating_sub(*at_ns) >= OPEN_EVERY_NS,
        };
        if is_due {
            self.open();
        }
    }

    /// Writes all buffered rows.
    ///
    /// # Durability
    /// That of [`SampleSink::finish`].
    pub(super) fn finish(&mut self) {
        if let Files::Open(sink) = &mut self.files {
            sink.finish();
        }
    }

    /// Returns whether samples are kept, or why not.
    pub(super) fn state(&self) -> &SinkState {
        match &self.files {
            Files::Open(sink) => sink.state(),
            Files::Failed { reason, .. } => reason,
        }
    }

    /// Returns the samples kept so far.
    pub(super) fn kept(&self) -> Kept {
        let kept = self.kept.clone();
        match &self.files {
            Files::Open(sink) => {
                Kept { written_rows: sink.written_rows(), lost_rows: sink.dropped_rows(), bytes: sink.bytes(), ..kept }
            }
            Files::Failed { .. } => kept,
        }
    }
}

/// Passes rows to the lists and models that process each of them.
pub(super) fn show(rows: &[SampleRow], loaded: &Loaded, judge: &Judge, recent: &Recent) {
    recent.add(rows);
    judge.take(loaded, rows);
}

/// Returns a probability in 32 bits, above 0.
fn single(probability: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "between 0 and 1; what would become 0 is brought above it")]
    {
        (probability as f32).max(f32::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests;
