//! A small package of either kind, as a sample.

use super::{
    Complexity, CostModel as _, FitOptions, Model, Package, Ridge, RidgeOptions, Sample, Samples, TreeOptions, Trees,
    fit,
};
use crate::{LabelId, SchemaHash, UnitId};

/// Returns a small package of either kind, for seeds of the fuzz target and for tests.
pub fn sample_package(of_trees: bool) -> Package {
    let mut samples = Samples::new(2, Complexity::Linear(1)).expect("there is a second feature");
    for row in 0..60_u32 {
        let features = [f64::from(row % 7), f64::from(1 + row % 5)];
        let label = (1.0 + f64::from(row % 7)) * (1.0 + f64::from(row % 5));
        let time_us = 1_700_000_000_000_000 + u64::from(row);
        samples.push(Sample { features: &features, label, weight: 1.0, time_us }).expect("plain numbers");
    }
    let options = TreeOptions { trees: 2, depth: 2, ..TreeOptions::default() };
    let mut fitted = fit(&samples, &FitOptions::default()).expect("there are enough rows");
    fitted.model = if of_trees {
        Model::Trees(Trees::fit(&samples, &options).expect("there are rows"))
    } else {
        Model::Ridge(Ridge::fit(&samples, &RidgeOptions::default()).expect("there are rows"))
    };
    let (unit, label, schema) = (UnitId::new(13), LabelId::new(0), SchemaHash::new(0x1122_3344_5566_7788));
    Package { unit, label, schema_version: 1, schema, hardware: vec![7], fitted }
}
