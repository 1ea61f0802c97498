//! `ScrambledZipfian`: draws items, some of which are far more frequent than others and are scattered over the table.
//!
//! The item of rank r has a probability in proportion to r^-theta, exactly: by search in a table of sums, not by an
//! approximation such as that of Gray et al. (SIGMOD 1994). The seed's permutation assigns ranks to items. Cost: a
//! dozen bytes per item, and a binary search per draw.

use collie_workload::Chance;

/// YCSB's zipfian constant.
pub(crate) const THETA: f64 = 0.99;
/// The stream of the permutation among the streams of a seed.
const STREAM: u32 = u32::MAX - 1;

/// A distribution over items. See the module's documentation.
pub(crate) struct ScrambledZipfian {
    /// The cumulative probability up to each rank; the last is 1.
    cumulative: Vec<f64>,
    item_of_rank: Vec<u32>,
}

impl ScrambledZipfian {
    /// Makes the distribution over the items 1 to `items`, at least one.
    pub(crate) fn new(items: u32, theta: f64, seed: u64) -> Self {
        let mut sum = 0.0;
        let weigh = |rank: u32| {
            sum += f64::from(rank).powf(-theta);
            sum
        };
        let mut cumulative: Vec<f64> = (1..=items).map(weigh).collect();
        cumulative.iter_mut().for_each(|part| *part /= sum);
        Self { cumulative, item_of_rank: Chance::new(seed, STREAM).permutation(items) }
    }

    /// Draws an item.
    pub(crate) fn draw(&self, chance: &mut Chance) -> u32 {
        self.item_of_rank[self.rank(chance.share())]
    }

    /// Returns the first rank, from 0 on, whose cumulative probability is at least `share`, which is at most 1.
    fn rank(&self, share: f64) -> usize {
        self.cumulative.partition_point(|part| *part < share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEMS: u32 = 1_000;

    /// Goal: ranks are as frequent as in theory. Method: 400,000 draws; each of the twenty most frequent, and the rest
    /// in ten parts, are within five standard deviations of the values from r^-0.99, computed separately here.
    #[test]
    fn ranks_come_as_often_as_theory_says() {
        const DRAWS: u32 = 400_000;
        let zipfian = ScrambledZipfian::new(ITEMS, THETA, 5);
        let mut chance = Chance::new(7, 0);
        let mut counts = vec![0_u32; ITEMS as usize];
        for _ in 0..DRAWS {
            counts[zipfian.rank(chance.share())] += 1;
        }
        let weight = |from: usize, until: usize| -> f64 {
            (from..until).map(|rank| 1.0 / ((rank + 1) as f64).powf(THETA)).sum()
        };
        let all = weight(0, counts.len());
        let parts = (0..20).map(|rank| (rank, rank + 1)).chain((0..10).map(|part| (20 + part * 98, 118 + part * 98)));
        for (from, until) in parts {
            let p = weight(from, until) / all;
            let (expected, counted) = (p * f64::from(DRAWS), counts[from..until].iter().sum::<u32>());
            let deviation = (expected * (1.0 - p)).sqrt();
            let off = (f64::from(counted) - expected).abs() / deviation;
            assert!(off < 5.0, "ranks {from}..{until}: {counted}, not {expected:.0}: {off:.1} standard deviations");
        }
    }

    /// Goal: every item has one rank, and frequent items are scattered. Method: the table; the ten most frequent are
    /// not all in one tenth of the items. The extreme draws give the first and the last rank.
    #[test]
    fn every_item_has_a_rank_and_frequent_ones_are_scattered() {
        let zipfian = ScrambledZipfian::new(ITEMS, THETA, 5);
        let mut items = zipfian.item_of_rank.clone();
        let tenths: std::collections::BTreeSet<u32> = items[..10].iter().map(|item| (item - 1) / 100).collect();
        assert!(tenths.len() >= 4, "{tenths:?}");
        items.sort_unstable();
        assert_eq!(items, (1..=ITEMS).collect::<Vec<_>>());
        assert_eq!((zipfian.rank(f64::MIN_POSITIVE), zipfian.rank(1.0)), (0, 999));
        assert_eq!(ScrambledZipfian::new(1, THETA, 5).draw(&mut Chance::new(1, 1)), 1);
    }

    /// Goal: draws follow from the seed. Method: the same twice; another seed of the table, and of the draws.
    #[test]
    fn draws_repeat_by_seed() {
        let draw = |seed, stream| {
            let (zipfian, mut chance) = (ScrambledZipfian::new(ITEMS, THETA, seed), Chance::new(3, stream));
            (0..200).map(|_| zipfian.draw(&mut chance)).collect::<Vec<_>>()
        };
        let first = draw(1, 1);
        assert_eq!(first, draw(1, 1));
        assert!(first != draw(2, 1) && first != draw(1, 2));
    }
}
