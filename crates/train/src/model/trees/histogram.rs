//! `Histogram`: sums over the rows of a node, by feature and bin.

use super::bins::{BINS_MAX, Bins};

/// Sums over the rows of one bin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    /// The sum of weight times residual.
    pub(super) gradient: f64,
    /// The sum of weights.
    pub(super) weight: f64,
    pub(super) rows: u32,
}

impl Cell {
    pub(super) fn add(&mut self, other: &Self) {
        self.gradient += other.gradient;
        self.weight += other.weight;
        self.rows += other.rows;
    }

    pub(super) fn less(&self, other: &Self) -> Self {
        Self {
            gradient: self.gradient - other.gradient,
            weight: self.weight - other.weight,
            rows: self.rows - other.rows,
        }
    }

    /// Returns the reduction of the squared error by a leaf of these rows, times two.
    pub(super) fn score(&self, penalty: f64) -> f64 {
        let weight = self.weight + penalty;
        if weight > 0.0 { self.gradient * self.gradient / weight } else { 0.0 }
    }
}

/// A split of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub(super) feature: usize,
    /// Rows of this bin and of lower ones go left.
    pub(super) bin: u8,
}

/// The sums of one node.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    cells: Vec<Cell>,
    pub(super) total: Cell,
}

impl Histogram {
    /// Sums `rows`.
    pub(super) fn of(rows: &[u32], bins: &Bins, left_over: &[f64], weights: &[f64]) -> Self {
        let mut cells = vec![Cell::default(); bins.cuts.len() * BINS_MAX];
        let mut total = Cell::default();
        let cell = |row: &u32| {
            let row = usize::try_from(*row).expect("a row's number fits memory");
            (row, Cell { gradient: weights[row] * left_over[row], weight: weights[row], rows: 1 })
        };
        rows.iter().for_each(|row| total.add(&cell(row).1));
        for (of_rows, cells) in bins.of_rows.iter().zip(cells.chunks_exact_mut(BINS_MAX)) {
            for row in rows {
                let (row, cell) = cell(row);
                cells[usize::from(of_rows[row])].add(&cell);
            }
        }
        Self { cells, total }
    }

    /// Returns the sums of a node less those of one child, which are those of the other child.
    pub(super) fn less(&self, child: &Self) -> Self {
        let cells = self.cells.iter().zip(&child.cells).map(|(all, part)| all.less(part)).collect();
        Self { cells, total: self.total.less(&child.total) }
    }

    /// Finds the split that reduces the squared error most, the first of equal ones; `None` if no split does.
    pub(super) fn best_split(&self, bins: &Bins, rows_min: u32, penalty: f64) -> Option<Split> {
        let whole = self.total.score(penalty);
        // The least gain is above what rounding can leave of a split without gain.
        let mut best_gain = 1e-12 * (1.0 + whole);
        let mut best = None;
        for (feature, (cuts, cells)) in bins.cuts.iter().zip(self.cells.chunks_exact(BINS_MAX)).enumerate() {
            let mut left = Cell::default();
            for (bin, cell) in cells.iter().take(cuts.len()).enumerate() {
                left.add(cell);
                let right = self.total.less(&left);
                if left.rows.min(right.rows) < rows_min.max(1) {
                    continue;
                }
                let gain = left.score(penalty) + right.score(penalty) - whole;
                if gain > best_gain {
                    best_gain = gain;
                    best = Some(Split { feature, bin: u8::try_from(bin).expect("at most 255 bins") });
                }
            }
        }
        best
    }
}
