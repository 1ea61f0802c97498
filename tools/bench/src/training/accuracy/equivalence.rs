//! `Equivalence`: whether one model is as good as another on the same rows, within a margin: two one-sided tests
//! (Schuirmann, 1987).
//!
//! Finding no difference is no evidence that models are equal: few rows never show one. So the tested hypothesis is
//! that the difference is as large as the margin, and it must be refuted at 5 %.
//!
//! Consecutive rows are correlated: a checkpoint, or a neighbour on the machine, slows all rows of a second. So rows
//! are grouped into blocks of time, and the spread is that of the sums of blocks.
//!
//! # Invariants
//! - E1. Both models are judged by the same rows with the same weights.
//! - E2. Copies of rows, or larger weights for all of them, change no result.

use super::student::at_most;

/// The number of blocks of equal time that the rows are divided into.
pub(super) const BLOCKS: usize = 20;
/// With fewer blocks that have rows there is no verdict.
pub(super) const BLOCKS_MIN: usize = 5;
/// A claim is refuted below this probability.
pub(super) const LEVEL: f64 = 0.05;
/// The margin: two points of relative error, or a twentieth of the reference's error, whichever is more.
const POINTS: f64 = 0.02;
const FACTOR: f64 = 1.05;

/// A row with the errors of both models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judged {
    /// The time of the sample, in us since 1970.
    pub(super) time_us: u64,
    /// The number of calls that it represents.
    pub(super) weight: f64,
    /// Relative error of the model that is to be as good, 0.1 for 10 %.
    pub(super) candidate: f64,
    /// Relative error of the model that it is compared with.
    pub(super) reference: f64,
}

/// The results of the tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Equivalence {
    /// The probability of the observed mean, or a lower one, if the candidate were worse by the margin.
    pub(super) p_worse: f64,
    /// The probability of the observed mean, or a higher one, if the candidate were better by the margin.
    pub(super) p_better: f64,
}

impl Equivalence {
    /// Returns whether the candidate is within the margin of the reference, or better.
    pub(super) fn is_no_worse(&self) -> bool {
        self.p_worse < LEVEL
    }

    /// Returns whether the candidate is neither worse nor better by the margin.
    pub(super) fn is_equivalent(&self) -> bool {
        self.is_no_worse() && self.p_better < LEVEL
    }
}

/// Weighted sums of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    weight: f64,
    candidate: f64,
    reference: f64,
}

/// Returns the row indices of each of `blocks` blocks of equal time that has rows, oldest block first.
pub(super) fn blocks_of(times_us: &[u64], blocks: usize) -> Vec<Vec<usize>> {
    let (Some(first), Some(last)) = (times_us.iter().min(), times_us.iter().max()) else { return Vec::new() };
    let mut by_block = vec![Vec::new(); blocks];
    let span = u128::from(last - first) + 1;
    for (row, time_us) in times_us.iter().enumerate() {
        let at = u128::from(time_us - first) * (blocks as u128) / span;
        by_block[usize::try_from(at).expect("below the number of blocks")].push(row);
    }
    by_block.retain(|rows| !rows.is_empty());
    by_block
}

/// Tests whether the candidate's error is within the margin of the reference's. Returns `None` if fewer than
/// [`BLOCKS_MIN`] blocks have rows.
pub(super) fn equivalence(rows: &[Judged]) -> Option<Equivalence> {
    let times: Vec<u64> = rows.iter().map(|row| row.time_us).collect();
    let blocks: Vec<Block> = blocks_of(&times, BLOCKS)
        .into_iter()
        .map(|of_block| {
            of_block.iter().map(|row| &rows[*row]).fold(Block::default(), |sum, row| Block {
                weight: sum.weight + row.weight,
                candidate: sum.candidate + row.weight * row.candidate,
                reference: sum.reference + row.weight * row.reference,
            })
        })
        .collect();
    if blocks.len() < BLOCKS_MIN {
        return None;
    }
    let weight: f64 = blocks.iter().map(|block| block.weight).sum();
    let reference = blocks.iter().map(|block| block.reference).sum::<f64>() / weight;
    // Where both margins are equal, either may be used.
    let is_by_factor = reference * (FACTOR - 1.0) > POINTS;
    let too_bad = |block: &Block| {
        if is_by_factor {
            block.candidate - FACTOR * block.reference
        } else {
            block.candidate - block.reference - POINTS * block.weight
        }
    };
    let too_good = |block: &Block| {
        if is_by_factor {
            block.reference - FACTOR * block.candidate
        } else {
            block.reference - block.candidate - POINTS * block.weight
        }
    };
    let (p_worse, p_better) = (p_below_zero(&blocks, too_bad), p_below_zero(&blocks, too_good));
    Some(Equivalence { p_worse, p_better })
}

/// Returns the probability of the observed mean, or a lower one, if the weighted mean of `of` over all rows were 0:
/// Student's t of the sums of blocks.
fn p_below_zero(blocks: &[Block], of: impl Fn(&Block) -> f64) -> f64 {
    let weight: f64 = blocks.iter().map(|block| block.weight).sum();
    let mean = blocks.iter().map(&of).sum::<f64>() / weight;
    let squares: f64 = blocks.iter().map(|block| (of(block) - mean * block.weight).powi(2)).sum();
    let count = u32::try_from(blocks.len()).expect("few blocks");
    let deviation = (squares * f64::from(count) / f64::from(count - 1)).sqrt() / weight;
    if deviation > 0.0 {
        at_most(mean / deviation, count - 1)
    } else {
        // All blocks agree: there is no spread, so the mean decides.
        f64::from(u8::from(mean >= 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one row of weight 1 in each of `BLOCKS` blocks.
    fn rows(of: impl Fn(usize) -> (f64, f64)) -> Vec<Judged> {
        let row = |at: usize| {
            let (candidate, reference) = of(at);
            Judged { time_us: u64::try_from(at).unwrap() * 1_000, weight: 1.0, candidate, reference }
        };
        (0..BLOCKS).map(row).collect()
    }

    fn noise(at: usize) -> f64 {
        if at.is_multiple_of(2) { 0.01 } else { -0.01 }
    }

    /// Goal: with one row per block the tests are Student's paired t tests against the margin. Method: differences of
    /// mean 0.005 that alternate by 0.01: t = (0.005 - 0.02) / (s / sqrt(n)) with s from n - 1, in closed form; the
    /// other side likewise.
    #[test]
    fn equal_blocks_give_the_paired_t_test() {
        let found = equivalence(&rows(|at| (0.105 + noise(at), 0.1))).unwrap();
        let n = 20.0_f64;
        let deviation = 0.01 * (n / (n - 1.0)).sqrt() / n.sqrt();
        let p = |difference: f64| at_most((difference - 0.02) / deviation, 19);
        assert!((found.p_worse - p(0.005)).abs() < 1e-9 && (found.p_better - p(-0.005)).abs() < 1e-9, "{found:?}");
        assert!(found.is_no_worse() && found.is_equivalent());
    }

    /// Goal: the hypothesis is not refuted at the margin and is refuted below it; a candidate that is much better is
    /// no worse, but not equivalent. Method: differences of exactly two points, of three, and of minus ten, with
    /// noise.
    #[test]
    fn margins_decide() {
        let at = |difference: f64| equivalence(&rows(|at| (0.2 + difference + noise(at), 0.2))).unwrap();
        assert!((at(0.02).p_worse - 0.5).abs() < 1e-6, "on the margin nothing is known");
        assert!(!at(0.02).is_no_worse() && !at(0.03).is_no_worse() && at(0.01).is_no_worse());
        let better = at(-0.1);
        assert!(better.is_no_worse() && !better.is_equivalent());
    }

    /// Goal: if the reference's error is large, the margin is a twentieth of it. Method: errors of 1.0 and 1.03: more
    /// than two points, less than a twentieth; then 1.06.
    #[test]
    fn large_errors_have_a_margin_in_proportion() {
        let at = |candidate: f64| equivalence(&rows(|at| (candidate + noise(at), 1.0))).unwrap();
        assert!(at(1.03).is_equivalent() && !at(1.06).is_no_worse());
        assert!(!at(0.9).is_equivalent() && at(0.9).is_no_worse());
    }

    /// Goal: rows at one time are one observation, not many. Method: one row per block, then each a hundred times: the
    /// same p-values; weights instead of copies likewise.
    #[test]
    fn copies_of_rows_prove_nothing() {
        let one = rows(|at| (0.105 + noise(at) * 3.0, 0.1));
        let many: Vec<Judged> = one.iter().flat_map(|row| [*row; 100]).collect();
        let heavy: Vec<Judged> = one.iter().map(|row| Judged { weight: 100.0, ..*row }).collect();
        let p = |rows: &[Judged]| equivalence(rows).unwrap().p_worse;
        assert!((p(&one) - p(&many)).abs() < 1e-9 && (p(&one) - p(&heavy)).abs() < 1e-9);
    }

    /// Goal: without spread the difference alone decides, and too few blocks give no verdict. Method: equal errors;
    /// four times; no rows.
    #[test]
    fn without_spread_the_difference_decides() {
        let same = equivalence(&rows(|_| (0.3, 0.3))).unwrap();
        assert_eq!((same.p_worse, same.p_better), (0.0, 0.0));
        let worse = equivalence(&rows(|_| (0.4, 0.3))).unwrap();
        assert_eq!(worse.p_worse, 1.0);
        assert_eq!(equivalence(&rows(|_| (0.3, 0.3))[..4]), None);
        assert_eq!(equivalence(&[]), None);
    }

    /// Goal: blocks cover equal times, in order, and contain each row once. Method: times with a gap; a single time.
    #[test]
    fn blocks_are_of_equal_time() {
        assert_eq!(blocks_of(&[109, 100, 101, 150, 199], 10), [vec![0, 1, 2], vec![3], vec![4]]);
        assert_eq!(blocks_of(&[7, 7, 7], 10), [vec![0, 1, 2]]);
        assert!(blocks_of(&[], 10).is_empty());
    }
}
