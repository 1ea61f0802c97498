//! P6: grants the time that the apply workers have left, corrected downward by the delay.
//!
//! Feed-forward: the peak of the commit rate and the peak of the work per commit give the utilisation of the workers
//! without collection. Feedback: a controller on the logarithm of the delay against its bound, with a proportional and
//! an integral part that only reduce the grant. They reduce the offered work, if that is less than the headroom: half
//! of a grant that cannot be used up would have no effect.
//!
//! Control windows, in which nothing is collected, measure the delay without collection. A window without commits has
//! measured nothing and continues for a while. Until the first measurement the delay without collection counts as 0,
//! which gives the tightest bound.

use super::{Bound, Grant, Policy, PolicyState, Settings, Signals, TICK_US};

/// The number of ticks after which a control window starts.
const CONTROL_EVERY_TICKS: u32 = 50;

/// The length of a control window. In the first two ticks the queue of collected work empties; the last one counts.
const CONTROL_TICKS: u32 = 3;

/// The number of ticks after which a control window without commits ends.
const CONTROL_TICKS_MAX: u32 = 10;

/// c_min: the least share of the workers that is granted outside of control windows and overrides.
const SHARE_MIN: f64 = 0.002;

/// A delay above this multiple of its bound stops collection at once (RT5).
const OVERRIDE: f64 = 4.0;

/// P6, the default on replicas.
#[derive(Clone, Debug)]
pub struct Headroom {
    bound: Bound,
    utilisation_max: f64,
    /// lam': commits per second; it rises at once and falls slowly.
    peak_commits_per_s: f64,
    /// S: the work per commit without collection, in us; it rises at once and falls slowly; 0 before the first commit.
    peak_commit_us: f64,
    /// D0: the delay without collection, in us.
    without_us: Option<f64>,
    /// rho: the utilisation of the workers without collection.
    utilisation: f64,
    /// I: the integral part, -1 to 0.
    integral: f64,
    ticks: u32,
    /// The ticks that are left of a control window, and those by which it may continue.
    control_left: u32,
    control_more: u32,
}

impl Headroom {
    /// Returns a policy in a control window.
    pub const fn new(settings: &Settings) -> Self {
        Self {
            bound: settings.bound,
            utilisation_max: settings.utilisation_max,
            peak_commits_per_s: 0.0,
            peak_commit_us: 0.0,
            without_us: None,
            utilisation: 0.0,
            integral: 0.0,
            ticks: 0,
            control_left: CONTROL_TICKS,
            control_more: 0,
        }
    }

    fn begin_control(&mut self) {
        (self.control_left, self.control_more) = (CONTROL_TICKS, CONTROL_TICKS_MAX - CONTROL_TICKS);
    }

    fn note_load(&mut self, signals: &Signals) {
        let rate = signals.commits_per_s;
        self.peak_commits_per_s = rate.max(0.9 * self.peak_commits_per_s + 0.1 * rate);
        if rate > 0.0 {
            let commits = rate * TICK_US / 1e6;
            let each_us = (signals.busy_us - signals.spent_us).max(0.0) / commits;
            self.peak_commit_us = each_us.max(0.9 * self.peak_commit_us + 0.1 * each_us);
        }
        let capacity = f64::from(signals.workers) * 1e6;
        self.utilisation = (self.peak_commits_per_s * self.peak_commit_us / capacity).min(1.0);
    }

    /// Advances the control windows by a tick; returns whether the next tick belongs to one.
    fn note_control(&mut self, signals: &Signals) -> bool {
        match (self.control_left, signals.delay_us) {
            // The first commits: a control window has to measure them before anything is collected.
            (0, Some(_)) if self.without_us.is_none() => self.begin_control(),
            (0, _) => {}
            (1, Some(newest)) => {
                self.control_left = 0;
                self.without_us = Some(self.without_us.map_or(newest, |before| 0.7 * before + 0.3 * newest));
            }
            (1, None) if self.control_more > 0 => self.control_more -= 1,
            _ => self.control_left -= 1,
        }
        self.ticks = (self.ticks + 1) % CONTROL_EVERY_TICKS;
        if self.ticks == 0 {
            self.begin_control();
        }
        self.control_left > 0
    }

    fn retreat(&mut self) {
        self.integral = (self.integral - 0.05).max(-1.0);
    }
}

impl Policy for Headroom {
    fn tick(&mut self, signals: &Signals) -> Grant {
        self.note_load(signals);
        if self.note_control(signals) {
            return Grant::NONE;
        }
        let limit_us = self.bound.limit_us(self.without_us.unwrap_or(0.0));
        let behind_us = signals.behind_us();
        if behind_us > OVERRIDE * limit_us {
            self.retreat();
            return Grant::NONE;
        }
        let capacity = f64::from(signals.workers) * 1e6;
        let room = (self.utilisation_max - self.utilisation).max(SHARE_MIN);
        let error = (limit_us / behind_us.max(1.0)).ln();
        self.integral = (self.integral + 0.02 * error).clamp(-1.0, 0.0);
        let correction = (1.0 + 0.15 * error.min(0.0) + self.integral).max(0.0);
        let usable = room.min(signals.offered_us_per_s / capacity);
        Grant { collect_us_per_s: capacity * (usable * correction).max(SHARE_MIN) }
    }

    /// Counts a silent tick as infinitely far behind: the integral falls, and a control window restarts.
    fn silence(&mut self) {
        self.retreat();
        if self.control_left > 0 {
            self.control_left = CONTROL_TICKS;
        }
    }

    fn bound_us(&self) -> Option<f64> {
        self.without_us.map(|without| self.bound.limit_us(without))
    }

    fn state(&self) -> PolicyState {
        PolicyState {
            without_us: self.without_us,
            bound_us: self.bound_us(),
            integral: Some(self.integral),
            commit_us: Some(self.peak_commit_us),
            utilisation: Some(self.utilisation),
            is_control: self.control_left > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// More than any grant.
    const OFFERED: f64 = 1e8;

    /// Returns the signals of one worker with a utilisation of a tenth.
    fn light(delay_us: f64) -> Signals {
        Signals {
            delay_us: Some(delay_us),
            commits_per_s: 1000.0,
            busy_us: 10_000.0,
            offered_us_per_s: OFFERED,
            ..Signals::default()
        }
    }

    fn started(delay_us: f64) -> Headroom {
        let mut policy = Headroom::new(&Settings::default());
        let calm = light(delay_us);
        for _ in 0..4 {
            policy.tick(&calm);
        }
        policy
    }

    /// Goal: the documented formulas. Method: one grant computed by hand: utilisation 0.1, so 0.75 of one worker is
    /// left.
    #[test]
    fn headroom_grants_what_the_workers_have_left() {
        let mut policy = started(300.0);
        let calm = light(300.0);
        let state = policy.state();
        assert_eq!([state.without_us, state.bound_us, state.commit_us], [300.0, 1300.0, 100.0].map(Some));
        assert!(state.utilisation.is_some_and(|rho| (rho - 0.1).abs() < 1e-9) && !state.is_control);
        assert!((policy.tick(&calm).collect_us_per_s - 750_000.0).abs() < 1e-3);
        let late = Signals { delay_us: Some(2600.0), ..calm };
        let error = 0.5_f64.ln();
        let expected = 1e6 * 0.75 * (1.0 + 0.15 * error + 0.02 * error);
        assert!((policy.tick(&late).collect_us_per_s - expected).abs() < 1e-3);
    }

    /// Goal: the correction reduces the usable work, so that it has an effect at any headroom; all offered work is
    /// granted while the delay is inside its bound. Method: 30 ms per second offered to workers with 750 left, at half
    /// of the bound and at one and a half.
    #[test]
    fn headroom_takes_from_what_is_offered() {
        let mut policy = started(300.0);
        let offered = 30_000.0;
        let calm = Signals { offered_us_per_s: offered, ..light(650.0) };
        assert!((policy.tick(&calm).collect_us_per_s - offered).abs() < 1e-6);
        let late = Signals { delay_us: Some(1950.0), ..calm };
        let least = (0..40).map(|_| policy.tick(&late).collect_us_per_s).fold(offered, f64::min);
        // In the fortieth tick, I = -0.02 * 40 * ln 1.5, plus the proportional part.
        assert!((least - offered * (1.0 - (0.15 + 0.02 * 40.0) * 1.5_f64.ln())).abs() < 1e-6, "{least}");
        let nothing = Signals { offered_us_per_s: 0.0, ..light(650.0) };
        assert_eq!(policy.tick(&nothing).collect_us_per_s, SHARE_MIN * 1e6, "so that what is offered can be found out");
    }

    /// Goal: control windows come every fifty ticks and last three. Method: the ticks among 200 calm ones that grant
    /// nothing.
    #[test]
    fn headroom_measures_without_collection_every_five_seconds() {
        let mut policy = Headroom::new(&Settings::default());
        let calm = Signals { delay_us: Some(300.0), ..Signals::default() };
        let off: Vec<usize> = (1..=200).filter(|_| policy.tick(&calm) == Grant::NONE).collect();
        assert_eq!(off, [1, 2, 50, 51, 52, 100, 101, 102, 150, 151, 152, 200]);
    }

    /// Goal: a control window with a silent tick does not set the base. Method: silence within the first window.
    #[test]
    fn headroom_repeats_a_control_window_that_was_silent() {
        let mut policy = Headroom::new(&Settings::default());
        let calm = Signals { delay_us: Some(300.0), ..Signals::default() };
        policy.tick(&calm);
        policy.silence();
        policy.tick(&calm);
        policy.tick(&calm);
        assert_eq!(policy.bound_us(), None);
        policy.tick(&calm);
        assert_eq!(policy.bound_us(), Some(1300.0));
    }

    /// Goal: a control window without commits does not set the base and waits for some; one that waits in vain ends.
    /// Method: commits in some of its ticks, and in none.
    #[test]
    fn headroom_measures_only_where_something_is_committed() {
        let mut policy = Headroom::new(&Settings::default());
        let (calm, idle) = (light(300.0), Signals { delay_us: None, ..light(0.0) });
        let granted = |policy: &mut Headroom, signals| policy.tick(signals) != Grant::NONE;
        let before: Vec<bool> = (0..5).map(|_| granted(&mut policy, &idle)).collect();
        assert_eq!((before, policy.bound_us()), (vec![false, false, true, true, true], None), "held back by nothing");
        // The first commits start a control window at once.
        let first: Vec<bool> = [&calm, &idle, &idle, &idle, &calm].map(|signals| granted(&mut policy, signals)).into();
        assert_eq!((first, policy.bound_us()), (vec![false, false, false, false, true], Some(1300.0)));
        let off = (0..50).filter(|_| !granted(&mut policy, &idle)).count();
        assert_eq!((off, policy.bound_us()), (10, Some(1300.0)), "a window that waits in vain");
    }

    proptest! {
        /// Goal: a longer delay never grants more; grants are bounded; RT5's override holds. Method: two copies of a
        /// state with two delays.
        #[test]
        fn headroom_is_monotone_in_the_delay(base in 1.0..50_000.0_f64, a in 0.0..1e6_f64, b in 0.0..1e6_f64, workers in 1..64_u32) {
            let policy = started(base);
            let limit = policy.bound_us().expect("a control window has passed");
            let grant = |delay_us| {
                let signals = Signals { workers, ..light(delay_us) };
                policy.clone().tick(&signals).collect_us_per_s
            };
            let (near, far) = (a.min(b), a.max(b));
            prop_assert!(grant(near) >= grant(far));
            prop_assert!(grant(near) <= f64::from(workers) * 1e6 * 0.85);
            prop_assert_eq!(grant(far) == 0.0, far > 4.0 * limit);
        }
    }
}
