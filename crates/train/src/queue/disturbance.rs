//! `Disturbance`: the events that disturb the replica, and the times at which they are over.

use std::f64::consts::PI;

use super::RUN_MS;

/// A disturbance of the replica. Unless it says otherwise, 10,000 commits arrive per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// No disturbance.
    Steady,
    /// 13,000 commits per second for 15 s.
    Burst,
    /// Between 6,000 and 12,000 commits per second, with a period of a minute.
    Ramp,
    /// A transaction of 300 ms of work every 30 s.
    LongTransaction,
    /// 35 % of the processor is gone for 30 s, at 7,000 commits per second throughout.
    CpuHog,
    /// The worker stands still for 60 ms of every second, for 30 s.
    SlowDisk,
    /// No commit arrives for 200 ms every 20 s; then all of them arrive.
    NetworkStall,
    /// 12,600 commits per second: nine tenths of the worker's capacity.
    Peak,
}

impl Disturbance {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Steady,
        Self::Burst,
        Self::Ramp,
        Self::LongTransaction,
        Self::CpuHog,
        Self::SlowDisk,
        Self::NetworkStall,
        Self::Peak,
    ];

    /// Returns its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Burst => "burst",
            Self::Ramp => "ramp",
            Self::LongTransaction => "long transaction",
            Self::CpuHog => "CPU hog",
            Self::SlowDisk => "slow disk",
            Self::NetworkStall => "network stall",
            Self::Peak => "peak load",
        }
    }

    pub(super) fn commits_per_ms(self, at_s: f64) -> f64 {
        match self {
            Self::Burst if (30.0..45.0).contains(&at_s) => 13.0,
            Self::Ramp => 6.0 + 6.0 * (0.5 - 0.5 * (2.0 * PI * at_s / 60.0).cos()),
            Self::Peak => 12.6,
            Self::CpuHog => 7.0,
            _ => 10.0,
        }
    }

    /// Returns the work that the worker can do in this millisecond, in us.
    pub(super) fn capacity_us(self, at_ms: usize) -> f64 {
        let is_bad = (40_000..70_000).contains(&at_ms);
        match self {
            Self::CpuHog if is_bad => 650.0,
            Self::SlowDisk if is_bad && at_ms % 1000 < 60 => 0.0,
            _ => 1000.0,
        }
    }

    /// Returns whether arrivals are held back in this millisecond.
    pub(super) fn holds(self, at_ms: usize) -> bool {
        self == Self::NetworkStall && at_ms % 20_000 < 200
    }

    /// Returns the work of a long transaction that arrives in this millisecond, in us.
    pub(super) fn long_us(self, at_ms: usize) -> f64 {
        if self == Self::LongTransaction && at_ms % 30_000 == 15_000 { 300_000.0 } else { 0.0 }
    }

    /// Returns the times between an end of the disturbance and its next beginning, or the end of the run, in ms. It
    /// returns none for a disturbance that never ends.
    pub(super) fn calms_ms(self) -> Vec<(usize, usize)> {
        match self {
            Self::Burst => vec![(45_000, RUN_MS)],
            Self::CpuHog | Self::SlowDisk => vec![(70_000, RUN_MS)],
            Self::LongTransaction => {
                (0..RUN_MS / 30_000).map(|at| (at * 30_000 + 15_000, (at * 30_000 + 45_000).min(RUN_MS))).collect()
            }
            Self::NetworkStall => (0..RUN_MS / 20_000).map(|at| (at * 20_000 + 200, (at + 1) * 20_000)).collect(),
            Self::Steady | Self::Ramp | Self::Peak => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the calm times agree with the load and the worker. Method: in every calm millisecond nothing is held back,
    /// slowed, more than usual, or long; in the rest of the run something is.
    #[test]
    fn a_disturbance_is_over_when_it_says() {
        for kind in Disturbance::ALL {
            let calms = kind.calms_ms();
            if calms.is_empty() {
                continue;
            }
            let usual = kind.commits_per_ms(0.0);
            let mut disturbed = 0;
            for at_ms in 0..RUN_MS {
                let is_disturbed = kind.holds(at_ms)
                    || kind.long_us(at_ms) > 0.0
                    || kind.capacity_us(at_ms) < 1000.0
                    || kind.commits_per_ms(at_ms as f64 / 1000.0) > usual;
                disturbed += usize::from(is_disturbed);
                // A long transaction arrives in the millisecond in which its calm time starts.
                let is_calm = calms.iter().any(|(from, until)| (from + 1..*until).contains(&at_ms));
                assert!(!is_calm || !is_disturbed, "{kind:?} at {at_ms} ms");
            }
            assert!(disturbed > 0, "{kind:?} disturbs nothing");
        }
    }
}
