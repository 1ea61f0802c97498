//! [`Keeper`]: what becomes of samples once they were drained: frequent kinds of calls are thinned, the rest goes into files, to the models
//! that predict it, and to those who want the newest.
//!
//! # Invariants
//! - K1. A sample that is kept carries the probability of being drawn and of being kept, both together (RT2).
//! - K2. Nothing that goes wrong with files stops anything but collection (`collie_samples` S3); [`Keeper::state`] says why.

use std::path::{Path, PathBuf};

use collie_env::{Env, Random as _, SimRandom};
use collie_obs::{ContextRow, Sample, UNIT_SLOTS};
use collie_samples::{Origin, SampleRow, SampleSink, SinkOptions, SinkState};
use collie_train::budget::{Bucket, Thinner};

use super::{judge::Judge, models::Loaded, recent::Recent};

/// How often it is tried to open what could not be opened, in ns.
const OPEN_EVERY_NS: u64 = 60_000_000_000;

/// What has been kept so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kept {
    /// Samples that were kept, by unit.
    pub(super) by_unit: [u64; UNIT_SLOTS],
    /// Rows in files of this process.
    pub(super) written_rows: u64,
    /// Rows that were dropped since they could not be written.
    pub(super) lost_rows: u64,
    /// Bytes of all files.
    pub(super) bytes: u64,
}

impl Kept {
    /// Returns both together; the bytes are those of `later`, which counts all files.
    pub(super) fn and(&self, later: &Self) -> Self {
        let mut both = later.clone();
        both.by_unit.iter_mut().zip(self.by_unit).for_each(|(count, before)| *count += before);
        both.written_rows += self.written_rows;
        both.lost_rows += self.lost_rows;
        both
    }
}

/// Files, or why there are none.
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
            // Drawn from often, and for no secret.
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

    /// Takes what was drained; returns what was kept of it, in order.
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

    /// Writes what is old enough, and looks whether what was wrong still is. About ten times a second.
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

    /// Writes everything that waits.
    ///
    /// # Durability
    /// As [`SampleSink::finish`].
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

    /// Returns what was kept so far.
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

/// Shows rows to whoever looks at each of them.
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
#[path = "keeper_tests.rs"]
mod tests;
