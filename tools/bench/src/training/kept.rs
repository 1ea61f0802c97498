//! `Kept`: the number of samples that a server kept of a time window, and their effective number after weighting.
//!
//! A count reported by a server belongs to the time at which it closed a file, up to a minute after the samples were
//! taken. Here the time of the samples themselves counts.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use anyhow::Context as _;
use collie_env::Env;
use collie_samples::{CONTEXT_UNIT, SampleDir, SampleRow, samples_of, unit_of};

use super::recorded::{Window, rows_of};
use crate::txn::count_of;

/// The kept samples. See the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Kept {
    /// The number of samples of all units.
    pub(crate) samples: f64,
    /// n_eff: of each unit's samples (sum w)^2 / sum w^2, where w is 1 / p, at most [`collie_samples::WEIGHT_MAX`], as
    /// in a fit; summed over units, since each has its own models. At most `samples`, and equal to it if all samples
    /// of a unit have the same weight.
    pub(crate) effective: f64,
}

/// Returns the samples in the data directory `data` that were taken within each of `windows`. Reads every file once.
///
/// # Errors
/// A file cannot be read, or belongs to a unit that this program does not know.
pub(crate) fn kept_in(env: &Env, data: &Path, windows: &[Window]) -> anyhow::Result<Vec<Kept>> {
    let dir = SampleDir::new(Arc::clone(&env.files), data);
    let names = dir.list()?;
    let of_units = names.iter().filter(|name| name.unit != CONTEXT_UNIT);
    let units: BTreeSet<(u8, u8)> = of_units.map(|name| (name.unit, name.version)).collect();
    let mut all = vec![Kept::default(); windows.len()];
    for (id, version) in units {
        let unit = unit_of(id, version).with_context(|| format!("samples of unit {id} in version {version}"))?;
        let rows = rows_of(&dir, &names, unit)?;
        for (window, kept) in windows.iter().zip(&mut all) {
            let within: Vec<SampleRow> = rows.iter().filter(|row| window.holds(row)).copied().collect();
            let (samples, _cut) = samples_of(unit, 0, &within)?;
            kept.samples += count_of(within.len());
            kept.effective += samples.effective_rows();
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use collie_env::{Env, SimClock};
    use collie_obs::Sample;
    use collie_samples::{Origin, SampleSink, SinkOptions, sample_of_unit};

    use super::*;
    use crate::training::recorded::tests::{damage, put_one_sample};

    /// Goal: samples count in the window in which they were taken, regardless of the file; n_eff is (sum w)^2 / sum
    /// w^2 of each unit, with weights of at most 100, summed over units. Method: by hand. First window: unit 13 with p
    /// = 1 twice and p = 0.25 once, weights 1, 1, 4: 36 / 18 = 2; unit 9 with p = 0.5 four times: 4. Second: unit 13
    /// with p = 0.02 and p = 0.0001, weights 50 and 100: 22,500 / 12,500 = 1.8. Third: nothing. All are in one file
    /// per unit.
    #[test]
    fn samples_count_where_they_were_taken_and_as_they_weigh() {
        let clock = Arc::new(SimClock::new());
        let env = Env { clock: clock.clone(), ..Env::simulated(3).0 };
        let mut sink = SampleSink::open(&env, "/data".as_ref(), Origin::unknown("n1"), SinkOptions::default()).unwrap();
        let sample = |unit, p| Sample { p, ..sample_of_unit(unit, 5) };
        let begun_us = u64::try_from(env.clock.wall_us()).unwrap();
        clock.advance_ns(1_000_000);
        sink.add(&[sample(13, 1.0), sample(13, 1.0), sample(13, 0.25)]);
        sink.add(&[0.5; 4].map(|p| sample(9, p)));
        clock.advance_ns(10_000_000);
        sink.add(&[sample(13, 0.02), sample(13, 0.0001)]);
        sink.finish();
        let window =
            |from_ms: u64, to_ms: u64| Window { from_us: begun_us + from_ms * 1_000, to_us: begun_us + to_ms * 1_000 };
        let kept = kept_in(&env, "/data".as_ref(), &[window(0, 5), window(6, 20), window(30, 40)]).unwrap();
        assert_eq!(kept[0], Kept { samples: 7.0, effective: 6.0 });
        // p is stored with 24 bits.
        assert!(kept[1].samples == 2.0 && (kept[1].effective - 1.8).abs() < 1e-6, "{:?}", kept[1]);
        assert_eq!(kept[2], Kept::default());
        assert_eq!(kept_in(&env, "/none".as_ref(), &[window(0, 5)]).unwrap(), [Kept::default()]);
    }

    /// Goal: a file that cannot be read is an error, since partial figures would look complete. Method: a truncated
    /// file.
    #[test]
    fn a_damaged_file_is_an_error() {
        let (env, _disk) = Env::simulated(4);
        put_one_sample(&env);
        let all = [Window { from_us: 0, to_us: u64::MAX }];
        assert_eq!(kept_in(&env, "/data".as_ref(), &all).unwrap()[0].samples, 1.0);
        damage(&env);
        assert!(kept_in(&env, "/data".as_ref(), &all).is_err());
    }
}
