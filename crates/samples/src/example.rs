//! A plain sample and a deliberately wrong model, for examples, tests and benchmarks.

use collie_env::{Random as _, SimRandom};
use collie_obs::{Sample, UnitSchema};
use collie_train::{
    LabelId, TrainError, UnitId,
    model::{self, FitOptions, Package, Samples},
};

use crate::{complexity_of, schema_hash};

/// The number of samples that a wrong model is fitted to.
const WRONG_ROWS: u64 = 600;
/// The features of these samples go up to two to the power of this.
const WRONG_DOUBLINGS: f64 = 30.0;

/// Returns a sample of version 1 of a unit, with the features 1, 2, 3 and so on, an elapsed time of `elapsed_ns` and
/// probability 1.
pub fn sample_of_unit(unit: u8, elapsed_ns: u64) -> Sample {
    let features = [1, 2, 3, 4, 5, 6, 7, 8];
    Sample {
        ou: unit,
        version: 1,
        source: 0,
        flags: 0,
        thread: 1,
        calls: 1,
        p: 1.0,
        ctx: 1,
        start: 0,
        lsn: 0,
        features,
        labels: [elapsed_ns, 0, 0, 0],
    }
}

/// Returns a model of a unit's elapsed time with the wrong sign: the more work a call has, the less time it predicts.
/// It serves to test what decisions do with such a model.
///
/// # Errors
/// Those of the fit.
pub fn wrong_package(unit: &UnitSchema, seed: u64) -> Result<Package, TrainError> {
    let chance = SimRandom::new(seed);
    let mut samples = Samples::new(unit.features.len(), complexity_of(unit, 0))?;
    for time_us in 0..WRONG_ROWS {
        let doublings = || (chance.u64() >> 11) as f64 / (1_u64 << 53) as f64 * WRONG_DOUBLINGS;
        let features: Vec<f64> = unit.features.iter().map(|_| doublings().exp2().floor() - 1.0).collect();
        let label = features.iter().fold(1e9, |label, feature| label / (1.0 + feature).sqrt());
        samples.push(model::Sample { features: &features, label, weight: 1.0, time_us })?;
    }
    Ok(Package {
        unit: UnitId::new(unit.id),
        label: LabelId::new(0),
        schema_version: unit.version,
        schema: schema_hash(unit),
        hardware: Vec::new(),
        fitted: model::fit(&samples, &FitOptions::default())?,
    })
}
