//! `Governor`: a policy and the rules that hold for any of its grants.
//!
//! # Invariants
//! - G1. A tick with a stale heartbeat, with D above `delay_us_max`, or with x above four times the policy's bound
//!   grants nothing (RT5).
//! - G2. P2 guards every policy: after a mean delay above its limit nothing is granted until the mean has calmed or
//!   commits have stopped.
//! - G3. A grant is a number from 0 to `cpu_share` of the cores.
//!
//! Checked by the tests below with a policy whose grants are wrong.

use super::{Grant, HardLimit, Policy, PolicyKind, PolicyState, Settings, Signals};

/// The limit of G1, in multiples of the policy's bound.
const BOUNDS_MAX: f64 = 4.0;

/// The reason for which a governor grants nothing, independent of its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Halt {
    /// The primary was silent for too long: the replica's delay is unknown.
    Silent,
    /// The delay or the age of the oldest commit is above four times the bound.
    Far,
    /// The delay is above `training.collection_delay_max`.
    AboveMaximum,
    /// The mean delay was above its limit and has not calmed yet (P2).
    Calming,
}

impl Halt {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Silent, Self::Far, Self::AboveMaximum, Self::Calming];

    /// Returns the word that views and metrics show.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Far => "far",
            Self::AboveMaximum => "above_maximum",
            Self::Calming => "calming",
        }
    }
}

/// The source of a replica's grants: a policy and its guards.
#[derive(Debug)]
pub struct Governor {
    policy: Box<dyn Policy>,
    guard: HardLimit,
    delay_us_max: f64,
    limit_us_per_s: f64,
    halt: Option<Halt>,
}

impl Governor {
    /// Returns a new policy under the rules of `settings`, on a machine with `cores`.
    pub fn new(kind: PolicyKind, settings: Settings, cores: u32) -> Self {
        Self::around(kind.start(&settings), settings, cores)
    }

    /// Returns the rules around an existing policy.
    pub fn around(policy: Box<dyn Policy>, settings: Settings, cores: u32) -> Self {
        Self {
            policy,
            guard: HardLimit::new(settings.delay_us_max),
            delay_us_max: settings.delay_us_max,
            limit_us_per_s: settings.cpu_share * f64::from(cores) * 1e6,
            halt: None,
        }
    }

    /// Takes the signals of the last tick, whatever they are, and grants collection for the next one.
    pub fn tick(&mut self, signals: &Signals) -> Grant {
        let signals = signals.sanitized();
        if signals.is_stale() {
            self.policy.silence();
            self.halt = Some(Halt::Silent);
            return Grant::NONE;
        }
        // The policy and the guard take every tick that is not stale, so that their averages stay right while a halt
        // holds.
        let asked = self.policy.tick(&signals);
        let is_calm = self.guard.allows(signals.delay_us);
        let is_far = self.policy.bound_us().is_some_and(|bound_us| signals.behind_us() > BOUNDS_MAX * bound_us);
        self.halt = if is_far {
            Some(Halt::Far)
        } else if signals.delay_us.is_some_and(|delay_us| delay_us > self.delay_us_max) {
            Some(Halt::AboveMaximum)
        } else {
            (!is_calm).then_some(Halt::Calming)
        };
        if self.halt.is_some() { Grant::NONE } else { asked.clamped(self.limit_us_per_s) }
    }

    /// Returns the reason for which the last tick granted nothing; `None` if the policy's grant counts.
    pub fn halt(&self) -> Option<Halt> {
        self.halt
    }

    /// Returns the visible state of the policy.
    pub fn state(&self) -> PolicyState {
        self.policy.state()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A policy with a bug.
    #[derive(Debug)]
    struct Mad(f64);

    impl Policy for Mad {
        fn tick(&mut self, _: &Signals) -> Grant {
            Grant { collect_us_per_s: self.0 }
        }

        fn bound_us(&self) -> Option<f64> {
            Some(2000.0)
        }
    }

    fn mad(grant: f64) -> Governor {
        Governor::around(Box::new(Mad(grant)), Settings::default(), 4)
    }

    /// Goal: G3. Method: a policy that grants impossible amounts.
    #[test]
    fn a_mad_policy_is_clamped() {
        let calm = Signals { delay_us: Some(100.0), ..Signals::default() };
        for (asked, given) in [(f64::NAN, 0.0), (-5.0, 0.0), (f64::INFINITY, 1e6), (1e18, 1e6), (7.0, 7.0)] {
            assert_eq!(mad(asked).tick(&calm).collect_us_per_s, given, "asked {asked}");
        }
    }

    /// Goal: G1. Method: each of the three reasons on either side of its limit.
    #[test]
    fn collection_stops_in_the_tick_that_shows_a_reason() {
        let calm = Signals { delay_us: Some(100.0), ..Signals::default() };
        let is_on = |signals| mad(7.0).tick(&signals).collect_us_per_s > 0.0;
        assert!(is_on(Signals { heartbeat_us: 1e6, ..calm }) && !is_on(Signals { heartbeat_us: 1e6 + 1.0, ..calm }));
        assert!(is_on(Signals { age_us: 8000.0, ..calm }) && !is_on(Signals { age_us: 8001.0, ..calm }));
        let unbounded = |delay_us| {
            let mut governor = Governor::new(PolicyKind::Always, Settings::default(), 4);
            let start = Signals { delay_us: Some(0.0), offered_us_per_s: 9.0, ..Signals::default() };
            governor.tick(&start);
            governor.tick(&Signals { delay_us: Some(delay_us), ..start }).collect_us_per_s > 0.0
        };
        assert!(unbounded(100_000.0) && !unbounded(100_001.0), "the mean is still far below the guard's limit");
    }

    /// Goal: G2. Method: a mean above the limit, followed by delays that would be allowed by themselves.
    #[test]
    fn the_guard_holds_until_the_delay_has_calmed() {
        let mut governor = Governor::new(PolicyKind::Always, Settings::default(), 4);
        let at = |delay_us| Signals { delay_us: Some(delay_us), offered_us_per_s: 9.0, ..Signals::default() };
        governor.tick(&at(5e6));
        assert_eq!(governor.halt(), Some(Halt::AboveMaximum));
        assert_eq!(governor.tick(&at(90_000.0)), Grant::NONE);
        assert_eq!(governor.halt(), Some(Halt::Calming));
        let off = (0..1000).take_while(|_| governor.tick(&at(10_000.0)) == Grant::NONE).count();
        assert!((5..100).contains(&off), "{off} ticks");
        assert_eq!(governor.halt(), None);
        governor.tick(&Signals { heartbeat_us: 2e6, ..at(0.0) });
        assert_eq!(governor.halt(), Some(Halt::Silent));
    }

    proptest! {
        /// Goal: G1 and G3 hold for every policy and any signals. Method: random signals, some with values that are not
        /// numbers.
        #[test]
        fn grants_are_in_range_whatever_is_measured(kind in 0..7_usize, rows: Vec<(Option<f64>, f64, f64, f64, f64)>, stale: bool) {
            let mut governor = Governor::new(PolicyKind::ALL[kind], Settings::default(), 2);
            for (delay_us, age_us, commits_per_s, busy_us, offered_us_per_s) in rows {
                let heartbeat_us = if stale { f64::INFINITY } else { 0.0 };
                let signals = Signals {
                    delay_us, age_us, commits_per_s, busy_us, offered_us_per_s, heartbeat_us, ..Signals::default()
                };
                let granted = governor.tick(&signals).collect_us_per_s;
                prop_assert!((0.0..=500_000.0).contains(&granted));
                prop_assert!(!stale || granted == 0.0);
                prop_assert!(delay_us.is_none_or(|us| us.is_finite() && us <= 100_000.0) || granted == 0.0);
            }
        }
    }
}
