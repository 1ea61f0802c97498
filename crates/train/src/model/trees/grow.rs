//! `Grower`: grows one tree, level by level.

use super::{
    TreeOptions,
    bins::Bins,
    histogram::{Histogram, Split},
    node::{DEPTH_MAX, Node},
};

/// The input of one tree.
pub(super) struct Grower<'a> {
    pub(super) bins: &'a Bins,
    /// The residuals that the tree predicts, by row.
    pub(super) left_over: &'a [f64],
    /// Weights by row, 1 on average.
    pub(super) weights: &'a [f64],
    pub(super) options: &'a TreeOptions,
}

/// A node that may still be split.
struct Open {
    node: usize,
    rows: Vec<u32>,
    histogram: Histogram,
}

impl Grower<'_> {
    /// Appends a tree for `rows` to `nodes`, its root first.
    pub(super) fn grow(&self, rows: Vec<u32>, nodes: &mut Vec<Node>) {
        let histogram = self.histogram(&rows);
        nodes.push(self.leaf(&histogram));
        let mut level = vec![Open { node: nodes.len() - 1, rows, histogram }];
        for _ in 0..self.options.depth.min(DEPTH_MAX) {
            let mut next = Vec::new();
            for open in level {
                let split = open.histogram.best_split(self.bins, self.options.leaf_rows_min, self.options.penalty);
                if let Some(split) = split {
                    next.extend(self.split(open, split, nodes));
                }
            }
            level = next;
        }
    }

    fn histogram(&self, rows: &[u32]) -> Histogram {
        Histogram::of(rows, self.bins, self.left_over, self.weights)
    }

    fn leaf(&self, histogram: &Histogram) -> Node {
        let total = &histogram.total;
        Node::leaf(self.options.learning_rate * total.gradient / (total.weight + self.options.penalty))
    }

    /// Turns a leaf into a split and appends leaves for its two parts.
    fn split(&self, open: Open, split: Split, nodes: &mut Vec<Node>) -> [Open; 2] {
        let bins = &self.bins.of_rows[split.feature];
        let goes_left = |row: &u32| bins[usize::try_from(*row).expect("a row's number fits memory")] <= split.bin;
        let (left, right): (Vec<u32>, Vec<u32>) = open.rows.iter().partition(|row| goes_left(row));
        // Only the smaller part is summed; the sums of the larger one are the difference.
        let smaller = self.histogram(if left.len() <= right.len() { &left } else { &right });
        let larger = open.histogram.less(&smaller);
        let sums = if left.len() <= right.len() { [smaller, larger] } else { [larger, smaller] };
        let first = nodes.len();
        nodes[open.node] = Node {
            value: self.bins.cuts[split.feature][usize::from(split.bin)],
            feature: u16::try_from(split.feature).expect("a unit has few features"),
            pad: 0,
            left: u32::try_from(first).expect("trees are small"),
        };
        nodes.extend(sums.each_ref().map(|histogram| self.leaf(histogram)));
        let [of_left, of_right] = sums;
        [
            Open { node: first, rows: left, histogram: of_left },
            Open { node: first + 1, rows: right, histogram: of_right },
        ]
    }
}
