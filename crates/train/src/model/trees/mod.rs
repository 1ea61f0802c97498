//! `Trees`: gradient-boosted regression trees over histograms (Friedman, 2001; histograms as in LightGBM, Ke et al.,
//! 2017).
//!
//! Each tree is fitted to the residuals of the trees before it. Features are cut into at most 255 bins, so a split is
//! chosen from sums per bin. There are no missing values and no categories, since features of units are numbers.

mod bins;
mod grow;
mod histogram;
mod node;

use collie_env::SimRandom;

use super::{CostModel, Samples};
use crate::{TrainError, numbers::unit_interval};

use bins::Bins;
use grow::Grower;
pub use node::Node;
pub(super) use node::{DEPTH_MAX, LEAF, NODE_BYTES, NODES_PER_TREE_MAX, TREES_MAX};

/// The options of trees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeOptions {
    /// The number of trees, at most 64.
    pub trees: usize,
    /// The number of splits from a root to a leaf, at most 6.
    pub depth: u32,
    /// The number of bins of a feature, at most 255.
    pub bins: usize,
    /// The share of the residuals that each tree predicts.
    pub learning_rate: f64,
    /// Added to the weight of a leaf, so that leaves of few rows predict less; a row weighs 1 on average.
    pub penalty: f64,
    /// The least number of rows of a leaf.
    pub leaf_rows_min: u32,
    /// The share of the rows to which each tree is fitted, drawn from the seed (Friedman, 2002).
    pub row_share: f64,
    /// The seed; the same seed gives the same trees.
    pub seed: u64,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            trees: TREES_MAX,
            depth: DEPTH_MAX,
            bins: 255,
            learning_rate: 0.1,
            penalty: 1.0,
            leaf_rows_min: 5,
            row_share: 0.8,
            seed: 1,
        }
    }
}

/// Model B.
#[derive(Clone, Debug, PartialEq)]
pub struct Trees {
    /// The prediction before the first tree.
    pub(super) base_ln: f64,
    /// The index in `nodes` at which each tree begins, ascending; the first is 0.
    pub(super) roots: Vec<u32>,
    pub(super) nodes: Vec<Node>,
}

/// Returns the amount that the tree at `root` adds for a row.
fn leaf_value(nodes: &[Node], root: u32, features: &[f64]) -> f64 {
    let mut at = root;
    loop {
        let node = &nodes[usize::try_from(at).expect("a node's number fits memory")];
        if node.feature == LEAF {
            return node.value;
        }
        // Left if x <= value; both children come after their parent (M4).
        at = node.left + u32::from(features[usize::from(node.feature)] > node.value);
    }
}

impl Trees {
    /// Returns the number of nodes, of 16 bytes each.
    pub const fn node_count(&self) -> usize {
        self.nodes.len()
    }
}

impl CostModel for Trees {
    type Options = TreeOptions;

    fn fit(samples: &Samples, options: &TreeOptions) -> Result<Self, TrainError> {
        if samples.is_empty() {
            return Err(TrainError::TooFew { rows: 0, needed: 1 });
        }
        let mean_weight = samples.weights().iter().sum::<f64>() / samples.len() as f64;
        let weights: Vec<f64> = samples.weights().iter().map(|weight| weight / mean_weight).collect();
        let weighted: f64 = weights.iter().zip(samples.targets_ln()).map(|(weight, target)| weight * target).sum();
        let base_ln = weighted / samples.len() as f64;
        let bins = Bins::new(samples, options.bins.clamp(2, bins::BINS_MAX));
        let mut left_over: Vec<f64> = samples.targets_ln().iter().map(|target| target - base_ln).collect();
        let mut trees = Self { base_ln, roots: Vec::new(), nodes: Vec::new() };
        let chance = SimRandom::new(options.seed);
        for _ in 0..options.trees.min(TREES_MAX) {
            let rows = draw_rows(samples.len(), options.row_share, &chance);
            let root = u32::try_from(trees.nodes.len()).expect("trees are small");
            trees.roots.push(root);
            Grower { bins: &bins, left_over: &left_over, weights: &weights, options }.grow(rows, &mut trees.nodes);
            for (row, left) in left_over.iter_mut().enumerate() {
                *left -= leaf_value(&trees.nodes, root, samples.row(row));
            }
        }
        Ok(trees)
    }

    fn predict_ln(&self, features: &[f64]) -> f64 {
        self.roots.iter().fold(self.base_ln, |sum, root| sum + leaf_value(&self.nodes, *root, features))
    }
}

/// Draws the rows of one tree; if the draw leaves none, all of them.
fn draw_rows(count: usize, share: f64, chance: &SimRandom) -> Vec<u32> {
    let all = || 0..u32::try_from(count).expect("samples are fewer than 2^32");
    if share >= 1.0 {
        return all().collect();
    }
    let drawn: Vec<u32> = all().filter(|_| unit_interval(chance) < share).collect();
    if drawn.is_empty() { all().collect() } else { drawn }
}

#[cfg(test)]
mod trees_tests;
