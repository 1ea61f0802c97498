//! Mutations: turn seeds into inputs, the same ones for the same number.
//!
//! The random numbers do not come from `collie_env`: they follow from the number given to [`Mutator::new`] alone.

/// Integers for which decoders often fail: the limits of each width.
const INTERESTING: [u64; 12] = [
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    0xFFFF_FFFF_FFFF_FFFF,
];

/// The length limit of an input, so that inserts and splices do not let one grow without end.
const INPUT_BYTES_MAX: usize = 1 << 17;

/// A source of inputs.
#[derive(Clone, Debug)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// Makes a source whose inputs follow from `seed` alone.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Steps splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn byte(&mut self) -> u8 {
        self.word().to_le_bytes()[0]
    }

    /// Returns a number below `bound`, or 0 for a bound of 0.
    fn below(&mut self, bound: usize) -> usize {
        let word = usize::try_from(self.word() >> 33).expect("31 bits fit");
        word.checked_rem(bound).unwrap_or(0)
    }

    /// Returns a range within `len`, mostly a short one.
    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let from = self.below(len);
        let most = if self.below(4) == 0 { len } else { 16 };
        from..(from + self.below(most) + 1).min(len)
    }

    /// Returns one of `corpus` with a few mutations.
    ///
    /// # Panics
    /// On an empty corpus.
    pub fn input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(6) {
            self.mutate(&mut input, corpus);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        if input.is_empty() {
            input.push(self.byte());
            return;
        }
        let at = self.below(input.len());
        match self.below(10) {
            0 | 1 => input[at] ^= 1 << self.below(8),
            2 => input[at] = self.byte(),
            3 => input.insert(at, self.byte()),
            4 => {
                input.drain(self.range(input.len()));
            }
            5 => input.truncate(at),
            6 => self.overwrite_integer(input, at),
            7 => {
                let nudge = u8::try_from(self.below(9)).expect("below 9");
                input[at] = input[at].wrapping_add(nudge).wrapping_sub(4);
            }
            8 => {
                let range = self.range(input.len());
                let copy = input[range].to_vec();
                input.splice(at..at, copy);
            }
            _ => {
                let other = &corpus[self.below(corpus.len())];
                let to = self.range(input.len());
                let from = self.range(other.len());
                input.splice(to, other[from].iter().copied());
            }
        }
    }

    fn overwrite_integer(&mut self, input: &mut [u8], at: usize) {
        let value = INTERESTING[self.below(INTERESTING.len())];
        let width = 1 << self.below(4);
        let little = value.to_le_bytes();
        let mut bytes = little[..width].to_vec();
        if self.below(2) == 0 {
            bytes.reverse();
        }
        input[at..].iter_mut().zip(bytes).for_each(|(old, new)| *old = new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: Z2 for the driver: one number gives one series of inputs, and another number another series. Method:
    /// three sources, one hundred inputs each.
    #[test]
    fn inputs_follow_from_the_number_alone() {
        let corpus = [b"a seed".to_vec(), vec![0; 40], Vec::new()];
        let series = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..100).map(|_| mutator.input(&corpus)).collect::<Vec<_>>()
        };
        assert_eq!(series(1), series(1));
        assert_ne!(series(1), series(2));
    }
}
