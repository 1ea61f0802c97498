//! `Random`: the source of salts, ids and random choices.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicU64, Ordering},
};

/// A source of random bytes.
pub trait Random: Send + Sync + Debug {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);

    /// Returns a random integer.
    fn u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// The operating system's cryptographic randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealRandom;

impl Random for RealRandom {
    /// # Panics
    /// When the kernel gives no random bytes: every later id would be predictable, so the process stops.
    fn fill(&self, bytes: &mut [u8]) {
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("the operating system gives no random bytes: {error}"),
            }
        }
    }
}

/// A sequence that its seed determines. Not for secrets.
#[derive(Debug)]
pub struct SimRandom(AtomicU64);

impl SimRandom {
    /// Starts the sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Returns a number below `bound`, which must not be 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.u64() % bound
    }
}

impl Random for SimRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let word = self.u64().to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }

    /// Returns the next number by SplitMix64: a counter in odd steps, then a mixing function. Steele, Lea, Flood,
    /// OOPSLA 2014.
    fn u64(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: equal seeds give equal sequences, and the system's randomness differs each time. Method: draw twice
    /// from each.
    #[test]
    fn seeded_sequences_repeat_and_real_ones_do_not() {
        let draw = |seed| {
            let random = SimRandom::new(seed);
            let mut bytes = [0; 13];
            random.fill(&mut bytes);
            (bytes, random.u64())
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        assert_ne!(RealRandom.u64(), RealRandom.u64());
    }
}
