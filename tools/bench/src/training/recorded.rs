//! `Recorded`: the samples of a server from the time in which a load ran, read from its files.
//!
//! # What always holds
//! - D1. Only rows of the window count: samples from loading or from after the run are not included.
//! - D2. A file that cannot be read is an error, since partial figures would look complete.

use std::{path::Path, sync::Arc};

use anyhow::Context;
use collie_env::{Clock, Env};
use collie_obs::UnitSchema;
use collie_samples::{FileName, SampleDir, SampleRow, samples_of};
use collie_train::model::Samples;

use crate::Scratch;

/// A time window, in us since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// The first time in it.
    pub(crate) from_us: u64,
    /// The last time in it.
    pub(crate) to_us: u64,
}

impl Window {
    /// Returns the window in which `work` ran, with its result.
    ///
    /// # Errors
    /// Those of `work`; the clock is before 1970.
    pub(crate) fn of<T>(clock: &dyn Clock, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(Self, T)> {
        let from_us = u64::try_from(clock.wall_us()).context("the clock is before 1970")?;
        let done = work()?;
        Ok((Self { from_us, to_us: u64::try_from(clock.wall_us())? }, done))
    }

    /// Returns whether a sample was taken in it.
    pub(crate) fn holds(&self, row: &SampleRow) -> bool {
        (self.from_us..=self.to_us).contains(&row.time_us)
    }
}

/// The samples of a server. See the module's documentation.
pub(crate) struct Recorded {
    dir: SampleDir,
    window: Window,
    /// Keeps the directory; the last owner deletes it.
    _scratch: Option<Arc<Scratch>>,
}

impl Recorded {
    /// Makes it for a server in `scratch` that has exited.
    pub(crate) fn in_scratch(env: &Env, scratch: Arc<Scratch>, window: Window) -> Self {
        Self { _scratch: Some(Arc::clone(&scratch)), ..Self::in_data(env, &scratch.path().join("data"), window) }
    }

    /// Makes it for the data directory `data`.
    pub(crate) fn in_data(env: &Env, data: &Path, window: Window) -> Self {
        Self { dir: SampleDir::new(Arc::clone(&env.files), data), window, _scratch: None }
    }

    /// Returns the elapsed times of a unit's calls with their features, ordered by time: at most `rows_max`, spread
    /// evenly over the window.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn samples(&self, unit: &'static UnitSchema, rows_max: usize) -> anyhow::Result<Samples> {
        let mut rows = rows_of(&self.dir, &self.dir.list()?, unit)?;
        rows.retain(|row| self.window.holds(row));
        rows.sort_by_key(|row| row.time_us);
        let (samples, _cut) = samples_of(unit, 0, &rows)?;
        Ok(evenly(&samples, rows_max))
    }
}

/// Returns all rows of a unit in its files among the files `names` of `dir`.
///
/// # Errors
/// A file cannot be read (D2).
pub(crate) fn rows_of(dir: &SampleDir, names: &[FileName], unit: &UnitSchema) -> anyhow::Result<Vec<SampleRow>> {
    let mut rows = Vec::new();
    for name in names.iter().filter(|name| (name.unit, name.version) == (unit.id, unit.version)) {
        rows.extend(dir.read(name)?.rows);
    }
    Ok(rows)
}

/// Returns `count` of the rows, spread evenly over their order, or all if there are no more.
pub(crate) fn evenly(samples: &Samples, count: usize) -> Samples {
    let all = samples.len();
    if all <= count {
        return samples.clone();
    }
    samples.select(&(0..count).map(|at| at * all / count).collect::<Vec<_>>())
}

#[cfg(test)]
pub(crate) mod tests {
    use collie_env::SimClock;
    use collie_samples::{Origin, SampleSink, SinkOptions, sample_of_unit, unit_of};

    use super::*;

    /// Goal: D1, and only the rows of one unit, ordered by time. Method: files of
    /// two units, one row a millisecond on a simulated clock; windows that contain all, some and none.
    #[test]
    fn rows_of_the_window_are_read() {
        let clock = Arc::new(SimClock::new());
        let env = Env { clock: clock.clone(), ..Env::simulated(3).0 };
        let mut sink = SampleSink::open(&env, "/data".as_ref(), Origin::unknown("n1"), SinkOptions::default()).unwrap();
        let begun_us = u64::try_from(env.clock.wall_us()).unwrap();
        for row in 1..=10 {
            clock.advance_ns(1_000_000);
            sink.add(&[sample_of_unit(9, row), sample_of_unit(13, 1_000)]);
        }
        sink.finish();
        let unit = unit_of(9, 1).unwrap();
        let within = |from: u64, to: u64, rows_max| {
            let window = Window { from_us: begun_us + from * 1_000, to_us: begun_us + to * 1_000 };
            let recorded = Recorded::in_data(&env, "/data".as_ref(), window);
            let samples = recorded.samples(unit, rows_max).unwrap();
            samples.targets_ln().iter().map(|ln| ln.exp().round()).collect::<Vec<_>>()
        };
        assert_eq!(within(0, 99, 99), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        assert_eq!(within(3, 5, 99), [3.0, 4.0, 5.0]);
        assert_eq!(within(0, 99, 5), [1.0, 3.0, 5.0, 7.0, 9.0]);
        assert_eq!(within(20, 30, 5), [0.0; 0]);
    }

    /// Puts a file of one sample of unit 9 into `/data`.
    pub(crate) fn put_one_sample(env: &Env) {
        let mut sink = SampleSink::open(env, "/data".as_ref(), Origin::unknown("n1"), SinkOptions::default()).unwrap();
        sink.add(&[sample_of_unit(9, 5)]);
        sink.finish();
    }

    /// Removes the last byte of the first file in `/data`.
    pub(crate) fn damage(env: &Env) {
        let names = SampleDir::new(Arc::clone(&env.files), "/data".as_ref()).list().unwrap();
        let file = env.files.open(&names[0].path("/data".as_ref()), collie_env::Access::ReadWrite).unwrap();
        file.set_len(file.len().unwrap() - 1).unwrap();
    }

    /// Goal: D2. Method: a truncated file.
    #[test]
    fn a_damaged_file_is_an_error() {
        let (env, _disk) = Env::simulated(4);
        put_one_sample(&env);
        let recorded = Recorded::in_data(&env, "/data".as_ref(), Window { from_us: 0, to_us: u64::MAX });
        let unit = unit_of(9, 1).unwrap();
        assert_eq!(recorded.samples(unit, 9).unwrap().len(), 1);
        damage(&env);
        assert!(recorded.samples(unit, 9).is_err());
    }
}
