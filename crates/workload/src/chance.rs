//! `Chance`: the random values of the specification (clauses 2.1.5, 2.1.6 and 4.3.2), each drawn from a seed.
//!
//! # Invariants
//! - C1. The same seed and stream give the same values, whatever other streams draw.
//! - C2. The constant of last names differs between loading and running by 65 to 119, and neither by 96 nor by 112.

use crate::random::Random;

const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// The constants A of NURand for last names, customers and items.
const A_NAME: u32 = 255;
const A_CUSTOMER: u32 = 1_023;
const A_ITEM: u32 = 8_191;

/// The random values of one stream.
#[derive(Clone, Debug)]
pub struct Chance(Random);

/// The constants of NURand, drawn once for a run.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    pub(crate) name_at_load: u32,
    name: u32,
    customer: u32,
    item: u32,
}

impl Constants {
    /// Draws the constants (C2).
    pub fn draw(seed: u64) -> Self {
        let mut chance = Chance::new(seed, u32::MAX);
        let name_at_load = chance.within(0, A_NAME);
        let name = loop {
            let name = chance.within(0, A_NAME);
            let delta = name.abs_diff(name_at_load);
            if (65..=119).contains(&delta) && delta != 96 && delta != 112 {
                break name;
            }
        };
        Self { name_at_load, name, customer: chance.within(0, A_CUSTOMER), item: chance.within(0, A_ITEM) }
    }
}

impl Chance {
    /// Makes stream `stream` of `seed`.
    pub fn new(seed: u64, stream: u32) -> Self {
        Self(Random::new(seed, stream))
    }

    /// Returns another stream, drawn from this one.
    pub fn fork(&mut self) -> Self {
        Self(Random::new(self.0.draw(), 0))
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn within(&mut self, low: u32, high: u32) -> u32 {
        let span = u64::from(high - low) + 1;
        low + u32::try_from(self.0.below(span)).expect("below a span of u32")
    }

    /// Returns an index below `count`.
    fn place(&mut self, count: usize) -> usize {
        usize::try_from(self.0.below(count as u64)).expect("below a usize")
    }

    /// Returns whether one of `of` cases happens.
    pub(crate) fn one_in(&mut self, of: u32) -> bool {
        self.within(1, of) == 1
    }

    /// Returns a number above 0 and at most 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub fn share(&mut self) -> f64 {
        ((self.0.draw() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number by NURand: some numbers are drawn far more often than others.
    fn uneven(&mut self, a: u32, c: u32, low: u32, high: u32) -> u32 {
        (((self.within(0, a) | self.within(low, high)) + c) % (high - low + 1)) + low
    }

    /// Returns the number of one of `names` last names, with the constant `c`.
    fn name_number(&mut self, c: u32, names: u32) -> u32 {
        self.uneven(A_NAME, c, 0, names - 1)
    }

    /// Returns a last name for a customer to be loaded.
    pub(crate) fn name_to_load(&mut self, constants: &Constants, names: u32) -> String {
        last_name(self.name_number(constants.name_at_load, names))
    }

    /// Returns a last name to search for.
    pub(crate) fn name_to_find(&mut self, constants: &Constants, names: u32) -> String {
        last_name(self.name_number(constants.name, names))
    }

    pub(crate) fn customer(&mut self, constants: &Constants, customers: u32) -> u32 {
        self.uneven(A_CUSTOMER, constants.customer, 1, customers)
    }

    pub(crate) fn item(&mut self, constants: &Constants, items: u32) -> u32 {
        self.uneven(A_ITEM, constants.item, 1, items)
    }

    /// Returns `low` to `high` letters and digits.
    pub fn text(&mut self, low: u32, high: u32) -> String {
        let length = self.within(low, high);
        (0..length).map(|_| char::from(LETTERS[self.place(LETTERS.len())])).collect()
    }

    /// Returns `length` digits.
    pub(crate) fn digits(&mut self, length: u32) -> String {
        (0..length).map(|_| char::from(b'0' + self.0.draw().to_le_bytes()[0] % 10)).collect()
    }

    /// Returns two capital letters.
    pub(crate) fn state(&mut self) -> String {
        (0..2).map(|_| char::from(LETTERS[10 + self.place(26)])).collect()
    }

    /// Returns a text for items and stock; one in ten contains ORIGINAL.
    pub(crate) fn data(&mut self) -> String {
        const MARK: &str = "ORIGINAL";
        let mut data = self.text(26, 50);
        if self.one_in(10) {
            let at = self.place(data.len() - MARK.len() + 1);
            data.replace_range(at..at + MARK.len(), MARK);
        }
        data
    }

    /// Returns the numbers from 1 to `count` in random order.
    pub fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (1..=count).collect();
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, self.place(at + 1));
        }
        numbers
    }
}

/// Returns the last name for a number below 1,000: a syllable for each digit.
pub(crate) fn last_name(number: u32) -> String {
    [number / 100, number / 10, number].map(|digit| SYLLABLES[digit as usize % 10]).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: names consist of the syllables of the digits. Method: the specification's examples.
    #[test]
    fn last_names_are_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!((last_name(0), last_name(999)), ("BARBARBAR".into(), "EINGEINGEING".into()));
    }

    /// Goal: constants keep C2; uneven numbers stay within bounds and are uneven. Method: 200 seeds; 100,000 draws, of
    /// which the most frequent tenth of the numbers takes far more than a tenth.
    #[test]
    fn uneven_numbers_are_within_bounds_and_uneven() {
        for seed in 0..200 {
            let constants = Constants::draw(seed);
            let delta = constants.name.abs_diff(constants.name_at_load);
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "seed {seed}: {delta}");
        }
        let (constants, mut chance) = (Constants::draw(7), Chance::new(7, 0));
        let mut counts = vec![0_u32; 3_000];
        for _ in 0..100_000 {
            counts[chance.customer(&constants, 3_000) as usize - 1] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let often: u32 = counts[..300].iter().sum();
        assert!(often > 20_000, "{often} of 100,000 in the most frequent tenth");
    }

    /// Goal: drawn values have the right form, and streams repeat (C1). Method: many draws; the same stream twice,
    /// another one.
    #[test]
    fn values_have_their_form_and_repeat() {
        let draw = |stream| {
            let mut chance = Chance::new(3, stream);
            (0..2_000)
                .map(|_| (chance.text(6, 10), chance.data(), chance.digits(4), chance.state()))
                .collect::<Vec<_>>()
        };
        let first = draw(1);
        assert_eq!(first, draw(1));
        assert_ne!(first, draw(2));
        let original = first.iter().filter(|(_, data, _, _)| data.contains("ORIGINAL")).count();
        assert!((100..300).contains(&original), "{original} of 2,000 say ORIGINAL");
        for (text, data, digits, state) in &first {
            assert!((6..=10).contains(&text.len()) && (26..=50).contains(&data.len()));
            assert!(digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit()));
            assert!(state.len() == 2 && state.bytes().all(|byte| byte.is_ascii_uppercase()));
        }
        let mut numbers = Chance::new(3, 3).permutation(100);
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    }
}
