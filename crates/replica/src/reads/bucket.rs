//! [`TokenBucket`]: so many bytes a second, and some saved up. It reads no clock.

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    bytes_per_s: u64,
    burst_bytes: u64,
    /// What is there, in millionths of a byte: what a microsecond brings is a whole number of them.
    level: u64,
    /// Until when it was filled.
    filled_us: u64,
}

const MILLION: u64 = 1_000_000;

impl TokenBucket {
    /// A full bucket.
    pub fn new(bytes_per_s: u64, burst_bytes: u64, now_us: u64) -> Self {
        Self { bytes_per_s, burst_bytes, level: burst_bytes.saturating_mul(MILLION), filled_us: now_us }
    }

    fn fill(&mut self, now_us: u64) {
        let elapsed_us = now_us.saturating_sub(self.filled_us);
        let most = self.burst_bytes.saturating_mul(MILLION);
        self.level = self.level.saturating_add(self.bytes_per_s.saturating_mul(elapsed_us)).min(most);
        self.filled_us = self.filled_us.max(now_us);
    }

    /// Takes so many bytes, if they are there.
    #[must_use]
    pub fn take(&mut self, bytes: u64, now_us: u64) -> bool {
        self.fill(now_us);
        let wanted = bytes.saturating_mul(MILLION);
        let is_there = self.level >= wanted;
        if is_there {
            self.level -= wanted;
        }
        is_there
    }

    /// Returns when so many bytes will be there; of more than it can hold, when it is full.
    pub fn there_at_us(&mut self, bytes: u64, now_us: u64) -> u64 {
        self.fill(now_us);
        let lacked = bytes.min(self.burst_bytes).saturating_mul(MILLION).saturating_sub(self.level);
        now_us.saturating_add(lacked.div_ceil(self.bytes_per_s.max(1)))
    }
}
