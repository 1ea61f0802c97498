//! `Workload`: the requests and their proportions; `Requests`: a sequence of them, drawn from a seed.

use collie_workload::Chance;

use super::table::{FIELD_BYTES, FIELDS};
use super::zipfian::ScrambledZipfian;

/// The workloads, with YCSB's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Half reads, half updates.
    A,
    /// Reads, and an update in twenty.
    B,
}

impl Workload {
    /// Returns the percentage of requests that read.
    const fn reads_percent(self) -> u32 {
        match self {
            Self::A => 50,
            Self::B => 95,
        }
    }
}

/// One request, which is a separate transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Reads all fields of an item's row.
    Read { item: u32 },
    /// Writes one field of an item's row.
    Update { item: u32, field: usize, value: String },
}

/// The requests of one client.
pub(crate) struct Requests<'a> {
    workload: Workload,
    items: &'a ScrambledZipfian,
    chance: Chance,
}

impl<'a> Requests<'a> {
    /// Makes the requests of a workload that follow from `seed` and the number of a client (Y1).
    pub(crate) fn new(workload: Workload, items: &'a ScrambledZipfian, seed: u64, client: u32) -> Self {
        Self { workload, items, chance: Chance::new(seed, client) }
    }

    /// Draws the next one.
    pub(crate) fn draw(&mut self) -> Request {
        let chance = &mut self.chance;
        let item = self.items.draw(chance);
        if chance.within(1, 100) <= self.workload.reads_percent() {
            return Request::Read { item };
        }
        let field = chance.within(0, u32::from(FIELDS) - 1) as usize;
        Request::Update { item, field, value: chance.text(FIELD_BYTES, FIELD_BYTES) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::THETA;

    /// Goal: reads and updates have the workload's proportion, updates write each field equally often, and values have
    /// their length. Method: 20,000 requests of each workload, within five standard deviations.
    #[test]
    fn requests_come_in_proportion() {
        const REQUESTS: u32 = 20_000;
        let items = ScrambledZipfian::new(500, THETA, 1);
        let is_near = |counted: u32, of: u32, p: f64| {
            let (expected, deviation) = (f64::from(of) * p, (f64::from(of) * p * (1.0 - p)).sqrt());
            (f64::from(counted) - expected).abs() < 5.0 * deviation
        };
        for (workload, reads) in [(Workload::A, 0.5), (Workload::B, 0.95)] {
            let mut requests = Requests::new(workload, &items, 1, 0);
            let (mut updates, mut by_field) = (0, [0_u32; FIELDS as usize]);
            for _ in 0..REQUESTS {
                match requests.draw() {
                    Request::Read { item } => assert!((1..=500).contains(&item)),
                    Request::Update { item, field, value } => {
                        assert!((1..=500).contains(&item) && value.len() == 100, "{item}, {value}");
                        updates += 1;
                        by_field[field] += 1;
                    }
                }
            }
            assert!(is_near(REQUESTS - updates, REQUESTS, reads), "{workload:?}: {updates} of {REQUESTS} update");
            assert!(by_field.iter().all(|count| is_near(*count, updates, 0.1)), "{workload:?}: {by_field:?}");
        }
    }

    /// Goal: Y1. Method: the same seed and client twice; another client, another seed, another workload.
    #[test]
    fn requests_are_the_seeds() {
        let items = ScrambledZipfian::new(500, THETA, 1);
        let draw = |workload, seed, client| {
            let mut requests = Requests::new(workload, &items, seed, client);
            (0..50).map(|_| requests.draw()).collect::<Vec<_>>()
        };
        let first = draw(Workload::A, 1, 2);
        assert_eq!(first, draw(Workload::A, 1, 2));
        for other in [draw(Workload::A, 1, 3), draw(Workload::A, 2, 2), draw(Workload::B, 1, 2)] {
            assert_ne!(first, other);
        }
    }
}
