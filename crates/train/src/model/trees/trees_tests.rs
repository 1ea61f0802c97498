//! Tests of trees against brute force, and of their promises about bytes and bounds.

use collie_env::SimRandom;

use super::*;
use crate::model::{Complexity, Sample};

/// Returns rows of `features` numbers in 0..1 and a target with a step, a slope and noise.
fn samples(rows: usize, features: usize, seed: u64) -> Samples {
    let chance = SimRandom::new(seed);
    let mut samples = Samples::new(features, Complexity::Constant).unwrap();
    for row in 0..rows {
        let x: Vec<f64> = (0..features).map(|_| unit_interval(&chance)).collect();
        let step = if x[0] > 0.4 { 2.0 } else { 0.0 };
        let target_ln = step + x.get(1).copied().unwrap_or(0.0) + 0.3 * unit_interval(&chance);
        let weight = 1.0 + unit_interval(&chance);
        let sample = Sample { features: &x, label: target_ln.exp(), weight, time_us: u64::try_from(row).unwrap() };
        samples.push(sample).unwrap();
    }
    samples
}

/// Predicts each row by the tree of `depth` that tries every threshold between two values of every feature, without
/// bins and sums.
fn brute_force(samples: &Samples, rows: &[usize], depth: u32, rows_min: usize, predicted: &mut [f64]) {
    let mean = |rows: &[usize]| {
        let weight: f64 = rows.iter().map(|row| samples.weight(*row)).sum();
        rows.iter().map(|row| samples.weight(*row) * samples.target_ln(*row)).sum::<f64>() / weight
    };
    let error = |rows: &[usize]| {
        let mean = mean(rows);
        rows.iter().map(|row| samples.weight(*row) * (samples.target_ln(*row) - mean).powi(2)).sum::<f64>()
    };
    let mut best = (error(rows) - 1e-9, None);
    for feature in 0..samples.feature_count() {
        for threshold in rows.iter().map(|row| samples.row(*row)[feature]) {
            let (left, right): (Vec<usize>, Vec<usize>) =
                rows.iter().partition(|row| samples.row(**row)[feature] <= threshold);
            if left.len().min(right.len()) >= rows_min {
                let error = error(&left) + error(&right);
                if error < best.0 - 1e-12 {
                    best = (error, Some((left, right)));
                }
            }
        }
    }
    match best.1 {
        Some((left, right)) if depth > 0 => {
            brute_force(samples, &left, depth - 1, rows_min, predicted);
            brute_force(samples, &right, depth - 1, rows_min, predicted);
        }
        _ => rows.iter().for_each(|row| predicted[*row] = mean(rows)),
    }
}

/// Goal: splits are the best possible ones. Method: one tree on 50 rows, for several depths and least sizes of leaves,
/// compared with a search over all thresholds, in 6 random cases.
#[test]
fn one_tree_agrees_with_brute_force_on_fifty_rows() {
    for seed in 1..=6 {
        let samples = samples(50, 3, seed);
        for (depth, leaf_rows_min) in [(1, 1), (2, 1), (3, 4), (6, 2)] {
            let one = TreeOptions {
                trees: 1,
                depth,
                learning_rate: 1.0,
                penalty: 0.0,
                leaf_rows_min,
                row_share: 1.0,
                ..TreeOptions::default()
            };
            let tree = Trees::fit(&samples, &one).unwrap();
            let mut expected = vec![0.0; samples.len()];
            let rows: Vec<usize> = (0..samples.len()).collect();
            brute_force(&samples, &rows, depth, usize::try_from(leaf_rows_min).unwrap(), &mut expected);
            for (row, expected) in expected.iter().enumerate() {
                let predicted = tree.predict_ln(samples.row(row));
                assert!(
                    (predicted - expected).abs() < 1e-9,
                    "seed {seed}, depth {depth}, row {row}: {predicted}, {expected}"
                );
            }
        }
    }
}

/// Goal: M1 holds and the seed is used. Method: the nodes of three fits are compared bit by bit.
#[test]
fn same_seed_gives_the_same_bytes() {
    let samples = samples(2000, 4, 9);
    let bits = |seed| {
        let trees = Trees::fit(&samples, &TreeOptions { seed, trees: 16, ..TreeOptions::default() }).unwrap();
        trees.nodes.iter().map(|node| (node.value.to_bits(), node.feature, node.left)).collect::<Vec<_>>()
    };
    assert_eq!(bits(1), bits(1));
    assert_ne!(bits(1), bits(2));
}

/// Goal: M4 and the limits of size. Method: every node of a full model on rows that allow every split.
#[test]
fn nodes_are_laid_out_as_documented() {
    let samples = samples(3000, 5, 4);
    let trees = Trees::fit(&samples, &TreeOptions { leaf_rows_min: 1, ..TreeOptions::default() }).unwrap();
    assert_eq!(trees.roots.len(), TREES_MAX);
    assert!(trees.node_count() > 2000 && trees.node_count() <= TREES_MAX * NODES_PER_TREE_MAX);
    let mut is_child = vec![false; trees.node_count()];
    for (at, node) in trees.nodes.iter().enumerate().filter(|(_, node)| node.feature != LEAF) {
        let left = usize::try_from(node.left).unwrap();
        assert!(left > at && left + 1 < trees.node_count());
        for child in [left, left + 1] {
            assert!(!std::mem::replace(&mut is_child[child], true), "node {child} has two parents");
        }
    }
    let roots: Vec<usize> = is_child.iter().enumerate().filter(|(_, is_child)| !**is_child).map(|(at, _)| at).collect();
    assert_eq!(roots, trees.roots.iter().map(|root| usize::try_from(*root).unwrap()).collect::<Vec<_>>());
}

/// Goal: boosting learns a step, which a line cannot. Method: the step of `samples` on rows that were not fitted,
/// except for those in the bin of the step, compared with the noise.
#[test]
fn boosted_trees_learn_a_step() {
    let trees = Trees::fit(&samples(3000, 4, 1), &TreeOptions::default()).unwrap();
    let fresh = samples(1000, 4, 2);
    let rows: Vec<usize> = (0..fresh.len()).filter(|row| (fresh.row(*row)[0] - 0.4).abs() > 0.01).collect();
    let squares = rows.iter().map(|row| (trees.predict_ln(fresh.row(*row)) - fresh.target_ln(*row)).powi(2));
    let error = (squares.sum::<f64>() / rows.len() as f64).sqrt();
    // The noise alone has a deviation of 0.3 / sqrt(12) = 0.087.
    assert!(error < 0.12, "{error}");
}

/// Goal: rows without a choice do no harm. Method: one row, equal rows, no rows.
#[test]
fn trees_of_equal_rows_are_leaves() {
    for rows in [1, 40] {
        let mut equal = Samples::new(2, Complexity::Constant).unwrap();
        for _ in 0..rows {
            equal.push(Sample { features: &[1.0, 2.0], label: 5.0, weight: 3.0, time_us: 0 }).unwrap();
        }
        let trees = Trees::fit(&equal, &TreeOptions::default()).unwrap();
        assert_eq!(trees.node_count(), TREES_MAX);
        assert!((trees.predict_ln(&[9.0, 9.0]) - 5.0_f64.ln()).abs() < 1e-9);
    }
    let none = Samples::new(2, Complexity::Constant).unwrap();
    assert!(matches!(Trees::fit(&none, &TreeOptions::default()), Err(TrainError::TooFew { .. })));
}
