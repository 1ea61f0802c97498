//! Samples and packages for tests: reads of rows that take 50 ns for each step of the version chain, with ten percent
//! of noise.

use std::{path::Path, sync::Arc};

use collie_env::{Env, Random as _, SimRandom};
use collie_samples::{
    SampleRow, complexity_of, features_of, label_of, sample_of_unit, schema_hash, unit_of, weight_of,
};
use collie_train::{
    LabelId, UnitId,
    model::{FitOptions, Package, Sample, Samples, fit},
};

use super::models::{Loaded, Models};

/// Returns `count` reads, `slow` times as slow as at 1.
pub(super) fn row_reads(count: u64, slow: u64, seed: u64) -> Vec<SampleRow> {
    let chance = SimRandom::new(seed);
    let read = |number: u64| {
        let steps = 1 + u32::try_from(chance.u64() % 20).expect("below 20");
        let mut sample = sample_of_unit(9, slow * u64::from(100 + 50 * steps) * (90 + chance.u64() % 20) / 100);
        sample.features = [8, 100, steps, 1, 0, 0, 0, 0];
        SampleRow { time_us: 1_700_000_000_000_000 + number, sample }
    };
    (0..count).map(read).collect()
}

/// Returns a model of the rows' elapsed time.
pub(super) fn package(rows: &[SampleRow]) -> Package {
    let unit = unit_of(rows[0].sample.ou, rows[0].sample.version).expect("a unit");
    let mut samples = Samples::new(unit.features.len(), complexity_of(unit, 0)).expect("as many as a sample has");
    for row in rows {
        let (features, label, weight) = (features_of(unit, row), label_of(row, 0), weight_of(row));
        samples.push(Sample { features: &features, label, weight, time_us: row.time_us }).expect("plain numbers");
    }
    Package {
        unit: UnitId::new(unit.id),
        label: LabelId::new(0),
        schema_version: unit.version,
        schema: schema_hash(unit),
        hardware: vec![7],
        fitted: fit(&samples, &FitOptions::default()).expect("there are enough rows"),
    }
}

/// Returns the models of these packages, loaded from a new directory.
pub(super) fn loaded_with(packages: &[Package]) -> Arc<Loaded> {
    let (env, _disk) = Env::simulated(1);
    let models = Models::new(env.files.clone(), Path::new("/data/models").to_owned());
    packages.iter().for_each(|package| models.store(package).expect("a disk that works"));
    let (count, refused) = models.load();
    assert_eq!((count, refused), (packages.len(), vec![]));
    models.loaded()
}
