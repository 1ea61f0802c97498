//! Whether a model of all nodes serves a node better than its own one: decided per unit, by leaving out one node at a
//! time.

use super::{Affine, Fitted, NodeSamples, Samples, cost_model::percentage_error};
use crate::TrainError;

/// The share of a node's newest samples on which both models are judged.
const JUDGED_SHARE: f64 = 0.2;

/// The errors of the models on a node, 0.1 for 10 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeError {
    /// The node.
    pub node: u64,
    /// That of the model of all other nodes with the node's correction.
    pub pooled: f64,
    /// That of the model of all other nodes without correction.
    pub uncorrected: f64,
    /// That of the node's own model.
    pub own: f64,
}

/// Judges two models for each node on its newest samples: that of the other nodes (`fit_pooled` gets their indexes in
/// `nodes`) with a correction from the node's older samples, and a model of those samples alone (`fit_own`).
///
/// # Errors
/// Those of the two functions, [`TrainError::TooFew`] for a node without samples, and [`TrainError::Shape`] for a model
/// with other features.
pub fn leave_one_node_out(
    nodes: &[NodeSamples],
    mut fit_pooled: impl FnMut(&[usize]) -> Result<Fitted, TrainError>,
    mut fit_own: impl FnMut(&Samples) -> Result<Fitted, TrainError>,
) -> Result<Vec<NodeError>, TrainError> {
    let mut errors = Vec::with_capacity(nodes.len());
    for (at, node) in nodes.iter().enumerate() {
        if node.samples.is_empty() {
            return Err(TrainError::TooFew { rows: 0, needed: 1 });
        }
        let others: Vec<usize> = (0..nodes.len()).filter(|other| *other != at).collect();
        let pooled = fit_pooled(&others)?;
        let (older, newest) = node.samples.split_by_time(JUDGED_SHARE);
        let own = fit_own(&older)?;
        let with_hardware = |features: &[f64]| [features, &node.hardware].concat();
        let calibration: Result<Vec<(f64, f64)>, TrainError> = (0..older.len())
            .map(|row| Ok((pooled.predict_ln(&with_hardware(older.row(row)))?.0, older.target_ln(row))))
            .collect();
        let affine = Affine::fit(&calibration?);
        // A model of another shape must be an error here, not an infinite error below.
        own.predict_ln(node.samples.row(0))?;
        let predict_own = |features: &[f64]| own.predict_ln(features).map_or(f64::INFINITY, |(ln, _)| ln);
        let predict_pooled =
            |features: &[f64]| pooled.predict_ln(&with_hardware(features)).map_or(f64::INFINITY, |(ln, _)| ln);
        errors.push(NodeError {
            node: node.node,
            pooled: percentage_error(&newest, |features| affine.apply(predict_pooled(features))),
            uncorrected: percentage_error(&newest, predict_pooled),
            own: percentage_error(&newest, predict_own),
        });
    }
    Ok(errors)
}

/// Returns whether the unit should use the model of all nodes.
pub fn pooling_helps(errors: &[NodeError]) -> bool {
    let sum = |of: fn(&NodeError) -> f64| errors.iter().map(of).sum::<f64>();
    !errors.is_empty() && sum(|error| error.pooled) <= sum(|error| error.own)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use collie_env::SimRandom;

    use super::*;
    use crate::{
        SchemaHash,
        model::{Complexity, FitOptions, Sample, fit, merge},
        numbers::unit_interval,
    };

    /// Returns a node with its own speed, whose cost is the given power of its feature.
    fn node(number: u32, rows: usize, power: f64) -> NodeSamples {
        let (chance, speed) = (SimRandom::new(u64::from(number)), f64::from(number));
        let mut samples = Samples::new(1, Complexity::Constant).unwrap();
        for row in 0..rows {
            let x = 1.0 + 1000.0 * unit_interval(&chance);
            let label = speed * x.powf(power) * (0.6 * (unit_interval(&chance) - 0.5)).exp();
            samples.push(Sample { features: &[x], label, weight: 1.0, time_us: u64::try_from(row).unwrap() }).unwrap();
        }
        NodeSamples { node: u64::from(number), schema: SchemaHash::new(1), hardware: vec![speed], samples }
    }

    fn judge(nodes: &[NodeSamples]) -> Vec<NodeError> {
        let options = FitOptions::default();
        let pooled = |others: &[usize]| {
            let others: Vec<NodeSamples> = others.iter().map(|other| nodes[*other].clone()).collect();
            fit(&merge(&others, SchemaHash::new(1), &BTreeMap::new(), 0)?, &options)
        };
        leave_one_node_out(nodes, pooled, |own| fit(own, &options)).unwrap()
    }

    /// Goal: pooling is chosen if nodes are alike and have few samples, and not if they differ. Method: four nodes of
    /// different speed with the same power law and few rows; four with different powers and many rows.
    #[test]
    fn pooling_is_chosen_where_nodes_are_alike() {
        let alike: Vec<NodeSamples> = (1..=4).map(|number| node(number, 80, 0.5)).collect();
        let errors = judge(&alike);
        assert!(errors.iter().all(|error| error.pooled < 0.3), "the correction meets the speed: {errors:?}");
        assert!(errors[0].uncorrected > 0.5, "the fastest node lies outside of the others: {errors:?}");
        let different: Vec<NodeSamples> =
            (1..=4).map(|number| node(number, 600, if number % 2 == 0 { 0.2 } else { 1.5 })).collect();
        let errors = judge(&different);
        assert!(!pooling_helps(&errors), "{errors:?}");
        assert!(!pooling_helps(&[]));
        assert!(pooling_helps(&[NodeError { node: 1, pooled: 0.1, uncorrected: 0.3, own: 0.2 }]));
    }
}
