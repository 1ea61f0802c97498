//! `merge`: combines the samples of several nodes into one set, weighted toward the calls of the primary.

use std::collections::BTreeMap;

use super::{Sample, Samples};
use crate::{SchemaHash, TrainError, budget::Bucket};

/// Most samples of one bucket of one node; the newest are kept.
pub const BUCKET_SAMPLES_MAX: usize = 1000;

/// The age at which a sample's weight is halved: 7 days.
const HALF_LIFE_US: f64 = 7.0 * 86_400.0 * 1e6;

/// The largest factor by which a bucket is raised or lowered toward its share on the primary: a few samples must not
/// stand for all calls.
const TOWARD_PRIMARY_MAX: f64 = 10.0;

/// One node's samples of a unit.
#[derive(Clone, Debug)]
pub struct NodeSamples {
    /// The node.
    pub node: u64,
    /// The schema of its samples.
    pub schema: SchemaHash,
    /// The constants of its hardware, which become features of every sample. All nodes have the same number of them.
    pub hardware: Vec<f64>,
    /// Its samples, weighted 1 / p.
    pub samples: Samples,
}

/// Returns the bucket of a row of features.
fn bucket_of(features: &[f64]) -> Bucket {
    let magnitude = |x: &f64| u32::try_from(crate::numbers::count_of(*x)).unwrap_or(u32::MAX);
    Bucket::of(&features.iter().take(3).map(magnitude).collect::<Vec<_>>())
}

/// Returns the newest rows of each bucket, up to the cap, in the order of the samples.
fn capped_rows(samples: &Samples) -> Vec<usize> {
    let mut by_bucket: BTreeMap<Bucket, Vec<usize>> = BTreeMap::new();
    for row in 0..samples.len() {
        by_bucket.entry(bucket_of(samples.row(row))).or_default().push(row);
    }
    let mut kept = Vec::new();
    for mut rows in by_bucket.into_values() {
        rows.sort_by_key(|row| std::cmp::Reverse(samples.time_us(*row)));
        rows.truncate(BUCKET_SAMPLES_MAX);
        kept.extend(rows);
    }
    kept.sort_unstable();
    kept
}

/// Merges the samples of one unit: drops nodes with another schema, caps each bucket of each node, halves weights per
/// week before `now_us`, and weights each bucket by its share of the calls on the primary (`primary_calls`; empty if
/// unknown).
///
/// Shapes: a row has the unit's features, followed by the node's hardware constants.
///
/// # Errors
/// [`TrainError::TooFew`] if no node has the schema; [`TrainError::Shape`] if nodes differ in their numbers of features
/// or constants, or in their complexity; [`TrainError::Number`] for a constant that is not finite.
pub fn merge(
    nodes: &[NodeSamples],
    schema: SchemaHash,
    primary_calls: &BTreeMap<Bucket, u64>,
    now_us: u64,
) -> Result<Samples, TrainError> {
    let nodes: Vec<&NodeSamples> = nodes.iter().filter(|node| node.schema == schema).collect();
    let first = nodes.first().ok_or(TrainError::TooFew { rows: 0, needed: 1 })?;
    let (feature_count, constants) = (first.samples.feature_count(), first.hardware.len());
    let complexity = first.samples.complexity();
    let mut merged = Samples::new(feature_count + constants, complexity)?;
    let mut rows = Vec::new();
    let mut sampled: BTreeMap<Bucket, f64> = BTreeMap::new();
    for node in &nodes {
        let shape = (node.samples.feature_count(), node.hardware.len());
        if shape != (feature_count, constants) || node.samples.complexity() != complexity {
            return Err(TrainError::Shape { found: shape.0 + shape.1, expected: feature_count + constants });
        }
        for row in capped_rows(&node.samples) {
            let age_us = now_us.saturating_sub(node.samples.time_us(row)) as f64;
            let weight = node.samples.weight(row) * (-age_us / HALF_LIFE_US).exp2();
            let bucket = bucket_of(node.samples.row(row));
            *sampled.entry(bucket).or_default() += weight;
            rows.push((*node, row, bucket, weight));
        }
    }
    let all_sampled: f64 = sampled.values().sum();
    let all_calls: f64 = primary_calls.values().map(|calls| *calls as f64).sum();
    let toward_primary = |bucket: Bucket| {
        if all_calls == 0.0 {
            return 1.0;
        }
        let on_primary = primary_calls.get(&bucket).map_or(0.0, |calls| *calls as f64 / all_calls);
        (on_primary * all_sampled / sampled[&bucket]).clamp(TOWARD_PRIMARY_MAX.recip(), TOWARD_PRIMARY_MAX)
    };
    for (node, row, bucket, weight) in rows {
        let features = [node.samples.row(row), &node.hardware].concat();
        merged.push(Sample {
            features: &features,
            label: node.samples.target_ln(row).exp() * complexity.of(&features),
            // The weight of a sample of years ago must stay above 0, since `Samples::push` refuses any other.
            weight: (weight * toward_primary(bucket)).max(1e-9),
            time_us: node.samples.time_us(row),
        })?;
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Complexity;

    const NOW_US: u64 = 1_000_000_000_000_000;
    const DAY_US: u64 = 86_400_000_000;

    /// Returns a node whose samples are `(feature, count, days ago)`.
    fn node(number: u64, schema: u64, runs: &[(f64, usize, u64)]) -> NodeSamples {
        let mut samples = Samples::new(1, Complexity::Constant).unwrap();
        for (feature, count, days) in runs {
            for n in 0..*count {
                let time_us = NOW_US - days * DAY_US + u64::try_from(n).unwrap();
                samples.push(Sample { features: &[*feature], label: 2.0, weight: 1.0, time_us }).unwrap();
            }
        }
        NodeSamples { node: number, schema: SchemaHash::new(schema), hardware: vec![9.0], samples }
    }

    fn weight_of(merged: &Samples, feature: f64) -> f64 {
        (0..merged.len()).filter(|row| merged.row(*row)[0] == feature).map(|row| merged.weight(row)).sum()
    }

    /// Goal: other schemas are dropped, buckets are capped by node, and the hardware is a feature. Method: three nodes.
    #[test]
    fn nodes_are_merged_under_their_caps() {
        let nodes =
            [node(1, 5, &[(1.0, 1500, 0), (64.0, 10, 0)]), node(2, 5, &[(1.0, 20, 0)]), node(3, 6, &[(1.0, 99, 0)])];
        let merged = merge(&nodes, SchemaHash::new(5), &BTreeMap::new(), NOW_US).unwrap();
        assert_eq!(merged.len(), BUCKET_SAMPLES_MAX + 10 + 20);
        assert_eq!(merged.row(0), [1.0, 9.0]);
        assert_eq!(merged.time_us(0), NOW_US + 500, "the newest are kept");
        assert!(merge(&nodes, SchemaHash::new(7), &BTreeMap::new(), NOW_US).is_err());
        let mut odd = nodes;
        odd[1].hardware.push(1.0);
        assert!(matches!(merge(&odd, SchemaHash::new(5), &BTreeMap::new(), NOW_US), Err(TrainError::Shape { .. })));
    }

    /// Goal: merging keeps the complexity, so that a long unit is learned per row. Method: samples with a complexity,
    /// merged.
    #[test]
    fn merged_samples_keep_their_complexity() {
        let mut samples = Samples::new(1, Complexity::Linear(0)).unwrap();
        samples.push(Sample { features: &[8.0], label: 56.0, weight: 1.0, time_us: NOW_US }).unwrap();
        let mut nodes = [node(1, 5, &[(1.0, 1, 0)]), NodeSamples { samples, ..node(2, 5, &[]) }];
        assert!(matches!(merge(&nodes, SchemaHash::new(5), &BTreeMap::new(), NOW_US), Err(TrainError::Shape { .. })));
        nodes[0].schema = SchemaHash::new(6);
        let merged = merge(&nodes, SchemaHash::new(5), &BTreeMap::new(), NOW_US).unwrap();
        assert_eq!((merged.complexity(), merged.len()), (Complexity::Linear(0), 1));
        assert!((merged.target_ln(0) - 7.0_f64.ln()).abs() < 1e-12);
    }

    /// Goal: a week halves a weight. Method: equal samples of today and of two weeks ago.
    #[test]
    fn old_samples_weigh_less() {
        let nodes = [node(1, 5, &[(1.0, 8, 0), (64.0, 8, 14)])];
        let merged = merge(&nodes, SchemaHash::new(5), &BTreeMap::new(), NOW_US).unwrap();
        assert!((weight_of(&merged, 1.0) / weight_of(&merged, 64.0) - 4.0).abs() < 1e-6);
    }

    /// Goal: the mix of the primary's calls counts, within limits. Method: two buckets that are sampled 9 to 1 and
    /// called 1 to 3; then one that the primary never calls.
    #[test]
    fn weights_follow_the_primary() {
        let nodes = [node(1, 5, &[(1.0, 90, 0), (64.0, 10, 0)])];
        let of = |calls: &[(f64, u64)]| {
            let calls = calls.iter().map(|(feature, calls)| (bucket_of(&[*feature]), *calls)).collect();
            let merged = merge(&nodes, SchemaHash::new(5), &calls, NOW_US).unwrap();
            weight_of(&merged, 64.0) / weight_of(&merged, 1.0)
        };
        assert!((of(&[(1.0, 100), (64.0, 300)]) - 3.0).abs() < 1e-6);
        let raised = of(&[(64.0, 300)]);
        assert!((raised - (10.0 * 10.0) / (90.0 * 0.1)).abs() < 1e-6, "{raised}");
    }
}
