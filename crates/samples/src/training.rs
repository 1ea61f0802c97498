//! Turns sample files into the rows to which a model is fitted or by which it is judged.

use std::collections::BTreeSet;

use collie_obs::UnitSchema;
use collie_train::{
    TrainError,
    model::{Sample as TrainSample, Samples},
};

use crate::{FileName, SampleDir, SampleRow, SamplesError, complexity_of};

/// The most calls that a sample stands for, however low its probability: one row must not outweigh all others.
pub const WEIGHT_MAX: f64 = 100.0;

/// Rows of one unit, and the files that were skipped.
#[derive(Debug)]
pub(crate) struct Rows {
    /// The rows: newest files first, each in its own order.
    pub(crate) rows: Vec<SampleRow>,
    /// The tags of the machines.
    pub(crate) hardware: BTreeSet<u64>,
    /// The number of files that are damaged, of another schema, or gone since they were listed.
    pub(crate) skipped_files: u64,
    /// Why the first of them was skipped.
    pub(crate) skipped_because: Option<SamplesError>,
}

/// Reads the newest rows of a unit, at most `rows_max`: whole files, newest first, and of the last one its first rows.
pub(crate) fn read_rows(dir: &SampleDir, unit: &UnitSchema, names: &[FileName], rows_max: usize) -> Rows {
    let mut read = Rows { rows: Vec::new(), hardware: BTreeSet::new(), skipped_files: 0, skipped_because: None };
    let of_unit = |name: &&FileName| name.unit == unit.id && name.version == unit.version;
    for name in names.iter().rev().filter(of_unit) {
        if read.rows.len() >= rows_max {
            break;
        }
        match dir.read(name) {
            Ok(mut file) => {
                file.rows.truncate(rows_max - read.rows.len());
                read.hardware.extend((file.footer.hardware_tag != 0).then_some(file.footer.hardware_tag));
                read.rows.append(&mut file.rows);
            }
            Err(error) => {
                read.skipped_files += 1;
                read.skipped_because.get_or_insert(error);
            }
        }
    }
    read
}

/// Returns a sample's features per call: sums over a run are divided by its calls, codes and flags are not.
pub fn features_of(unit: &UnitSchema, row: &SampleRow) -> Vec<f64> {
    let calls = f64::from(row.sample.calls.max(1));
    let fields = unit.features.iter().zip(row.sample.features);
    fields
        .map(|(field, value)| {
            let is_sum = !matches!(field.unit, "code" | "flag");
            if is_sum { f64::from(value) / calls } else { f64::from(value) }
        })
        .collect()
}

/// Returns a label per call. A label of 0 counts as 1, since models learn its logarithm.
pub fn label_of(row: &SampleRow, label: u8) -> f64 {
    let value = row.sample.labels.get(usize::from(label)).copied().unwrap_or(0);
    value.max(1) as f64 / f64::from(row.sample.calls.max(1))
}

/// Returns the number of calls that a sample stands for: 1 / p, at most [`WEIGHT_MAX`].
pub fn weight_of(row: &SampleRow) -> f64 {
    let weight = f64::from(row.sample.p).recip();
    if weight.is_finite() && weight > 0.0 { weight.min(WEIGHT_MAX) } else { 1.0 }
}

/// Returns the rows as the input for a fit of `label`, and the number of weights that were cut.
///
/// # Errors
/// Those of `train` for a shape that no unit has.
pub fn samples_of(unit: &UnitSchema, label: u8, rows: &[SampleRow]) -> Result<(Samples, u64), TrainError> {
    let mut samples = Samples::new(unit.features.len(), complexity_of(unit, label))?;
    let mut cut = 0;
    for row in rows {
        cut += u64::from(f64::from(row.sample.p) * WEIGHT_MAX < 1.0);
        samples.push(TrainSample {
            features: &features_of(unit, row),
            label: label_of(row, label),
            weight: weight_of(row),
            time_us: row.time_us,
        })?;
    }
    Ok((samples, cut))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{columns::unit_of, sample_of_unit};

    /// Goal: a row describes one call and stands for 1 / p calls, within the limit. Method: a run of four scans with a
    /// probability of 1/200; its flag is not divided.
    #[test]
    fn a_run_of_calls_becomes_one_call() {
        let mut sample = sample_of_unit(13, 4000);
        sample.calls = 4;
        sample.p = 0.005;
        sample.features = [400, 40, 4, 8, 1, 0, 0, 0];
        let scan = unit_of(13, 1).unwrap();
        let row = SampleRow { time_us: 7, sample };
        assert_eq!(features_of(scan, &row), [100.0, 10.0, 1.0, 2.0, 1.0]);
        let (samples, cut) = samples_of(scan, 0, &[row]).unwrap();
        assert_eq!((samples.weight(0), cut), (100.0, 1));
        assert!((samples.target_ln(0).exp() - 1000.0 / 100.0).abs() < 1e-9, "per call and per row examined");
        assert_eq!(label_of(&row, 3), 0.25, "a label of 0 counts as 1");
    }
}
