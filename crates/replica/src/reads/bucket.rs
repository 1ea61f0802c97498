//! [`TokenBucket`]: limits bytes per second, with a bounded burst. It reads no clock.

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    bytes_per_s: u64,
    burst_bytes: u64,
    /// The available bytes, in millionths of a byte, of which a microsecond adds a whole number.
    level: u64,
    /// The time up to which it was filled.
    filled_us: u64,
}

const MILLION: u64 = 1_000_000;

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(bytes_per_s: u64, burst_bytes: u64, now_us: u64) -> Self {
        Self { bytes_per_s, burst_bytes, level: burst_bytes.saturating_mul(MILLION), filled_us: now_us }
    }

    fn fill(&mut self, now_us: u64) {
        let elapsed_us = now_us.saturating_sub(self.filled_us);
        let most = self.burst_bytes.saturating_mul(MILLION);
        self.level = self.level.saturating_add(self.bytes_per_s.saturating_mul(elapsed_us)).min(most);
        self.filled_us = self.filled_us.max(now_us);
    }

    /// Takes `bytes` if they are available; returns whether it did.
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

    /// Returns when `bytes` will be available; for more than the bucket can hold, when it is full.
    pub fn there_at_us(&mut self, bytes: u64, now_us: u64) -> u64 {
        self.fill(now_us);
        let lacked = bytes.min(self.burst_bytes).saturating_mul(MILLION).saturating_sub(self.level);
        now_us.saturating_add(lacked.div_ceil(self.bytes_per_s.max(1)))
    }
}
