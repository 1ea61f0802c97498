//! A simulated server: settings, and seconds that follow from them by a known curve; models with a chosen prediction.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use collie_env::{Env, Random as _, SimFiles, SimRandom};
use collie_obs::UnitSchema;
use collie_train::{
    decision::{Guard, Row, Setting},
    model::Prediction,
};
use parking_lot::Mutex;

use super::{
    gauge::{Gauge, Second},
    journal_file::JournalFile,
    knobs::Knobs,
    predictor::{Call, Predictor, Recent},
};

/// The directory of its journal.
pub(super) const DIR: &str = "/data";
/// The configured values: 10 ms and 1 MiB.
pub(super) const CONFIGURED: [(Setting, f64); 2] =
    [(Setting::FlushDelay, 10_000.0), (Setting::FlushBytes, 1_048_576.0)];
/// Returns a disk as a power cut now may leave it. The original continues.
pub(super) fn after_power_cut(disk: &SimFiles, seed: u64) -> SimFiles {
    let point = disk.crash_point();
    point.state(&point.drawn(&SimRandom::new(seed)))
}

/// The standard deviation of a second's figures.
const NOISE: f64 = 0.01;

#[derive(Debug)]
pub(super) struct State {
    pub(super) values: BTreeMap<Setting, f64>,
    /// The fraction by which throughput grows when the delay doubles.
    pub(super) effect: f64,
    pub(super) guard: Option<Guard>,
    pub(super) is_delay_held: bool,
    pub(super) refuses: Option<f64>,
    pub(super) is_open: bool,
    /// Every value that was put.
    pub(super) puts: Vec<(Setting, f64)>,
    /// The violated rules.
    pub(super) violations: Vec<String>,
    chance: SimRandom,
    disk: SimFiles,
}

/// See the module's documentation. Clones are handles of the same server.
#[derive(Clone, Debug)]
pub(super) struct World(pub(super) Arc<Mutex<State>>);

impl World {
    /// Makes a server with the configured values and its journal on `disk`.
    pub(super) fn new(disk: SimFiles, seed: u64, effect: f64) -> Self {
        Self(Arc::new(Mutex::new(State {
            values: CONFIGURED.into_iter().collect(),
            effect,
            guard: None,
            is_delay_held: true,
            refuses: None,
            is_open: true,
            puts: Vec::new(),
            violations: Vec::new(),
            chance: SimRandom::new(seed),
            disk,
        })))
    }

    #[cfg(test)]
    pub(super) fn delay(&self) -> f64 {
        self.0.lock().values[&Setting::FlushDelay]
    }

    /// Records a violation unless `is_so`.
    pub(super) fn ensure(&self, is_so: bool, words: impl FnOnce() -> String) {
        if !is_so {
            self.0.lock().violations.push(words());
        }
    }

    /// Returns the number of settings that do not have the configured value.
    pub(super) fn changed(&self) -> usize {
        let state = self.0.lock();
        CONFIGURED.iter().filter(|(setting, value)| state.values[setting] != *value).count()
    }
}

impl State {
    fn noise(&self) -> f64 {
        // A sum of twelve uniform numbers has a standard deviation of 1.
        let unit = || (self.chance.u64() >> 11) as f64 / (1_u64 << 53) as f64;
        NOISE * ((0..12).map(|_| unit()).sum::<f64>() - 6.0)
    }
}

impl Knobs for World {
    fn value(&self, setting: Setting) -> Option<f64> {
        self.0.lock().values.get(&setting).copied()
    }

    /// Also checks C1: a value that is not configured has a row that is open, or that kept it, and that survives a
    /// power cut.
    fn put(&self, setting: Setting, value: f64) -> Result<(), String> {
        let mut state = self.0.lock();
        if state.refuses == Some(value) {
            return Err("refused".to_owned());
        }
        if !CONFIGURED.contains(&(setting, value)) {
            let journal = JournalFile::open(Env::over(after_power_cut(&state.disk, 1), 1), Path::new(DIR));
            let rows = journal.as_ref().map_or(&[][..], |(journal, _)| journal.entries());
            let named = rows.iter().rev().map(|entry| entry.row).find(|row| row.setting == setting);
            let is_named =
                |row: Row| (row.verdict.is_open() || row.verdict.is_kept()) && (value == row.new || value == row.old);
            if !named.is_some_and(is_named) {
                state.violations.push(format!("C1: {setting:?} = {value} was put, and the disk has {named:?}"));
            }
        }
        state.values.insert(setting, value);
        state.puts.push((setting, value));
        Ok(())
    }

    fn range(&self, setting: Setting) -> (f64, f64) {
        if setting == Setting::FlushDelay { (1000.0, 40_000.0) } else { (65_536.0, 8_388_608.0) }
    }

    fn is_open(&self) -> bool {
        self.0.lock().is_open
    }
}

impl Gauge for World {
    fn read(&mut self) -> Second {
        let state = self.0.lock();
        let doublings = (state.values[&Setting::FlushDelay] / 10_000.0).log2();
        let throughput = 1000.0 * (1.0 + state.effect * doublings) * (1.0 + state.noise());
        let p99_us = 2e6 / throughput * (1.0 + state.noise());
        let (is_delay_held, guard) = (state.is_delay_held, state.guard);
        Second { throughput, mean_us: 1e6 / throughput, p99_us, aborted: 0.0, is_delay_held, guard }
    }
}

/// Flushes that the delay ends, and a model of them by which a delay twice as long has the gain `gain`.
#[derive(Debug)]
pub(super) struct Models {
    pub(super) gain: f64,
    /// The size of each flush. From 0.8 MiB on, the bytes end it as well, so that doubling them has the same gain.
    pub(super) flush_bytes: f64,
}

impl Models {
    /// Makes a model of flushes of about half the configured bytes.
    pub(super) fn promise(gain: f64) -> Self {
        Self { gain, flush_bytes: 500_000.0 }
    }
}

impl Predictor for Models {
    fn recent(&self, unit: &UnitSchema) -> Recent {
        if unit.name != "LOG_FLUSH" {
            return Recent::default();
        }
        let call = Call { features: vec![self.flush_bytes, 0.0, 1.0, 10_000.0, 1.0, 0.0], weight: 10.0 };
        Recent { calls_per_s: 100.0, calls: vec![call; 64] }
    }

    fn predict(&self, unit: &UnitSchema, features: &[f64]) -> Option<Prediction> {
        let place = unit.features.iter().position(|field| field.name == "us_since_last")?;
        // Half as many calls, each more expensive by such a factor that the sum costs less by the gain.
        let power = 1.0 - (1.0 + self.gain).log2();
        let value = 1e6 * (features[place] / 10_000.0).powf(power);
        Some(Prediction { value, low: value * 0.98, high: value * 1.02, clamped: false })
    }

    fn model_hash(&self, _: &UnitSchema) -> Option<u64> {
        Some(7)
    }

    fn is_stale(&self, _: &UnitSchema) -> bool {
        false
    }
}
