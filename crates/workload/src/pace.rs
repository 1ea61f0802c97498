//! `Pacing`: when transactions begin.
//!
//! # Invariants
//! - P1. With a rate, the arrival times are fixed before the run by the rate and a seed alone, and latency counts from
//!   them. A slow database does not reduce the number of requested transactions.
//! - P2. Each arrival time is handed out once, in order, regardless of which client takes it.

use std::time::Duration;

use collie_env::Clock;
use parking_lot::Mutex;

use crate::chance::Chance;
use crate::request::Kind;

/// When transactions begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// Each client begins its next transaction when the last one has ended.
    FlatOut,
    /// A number per second over all clients, evenly spaced (P1). The next free client takes the next one.
    Rate(f64),
    /// An average number per second with independent arrivals: a Poisson process, as many users produce it (P1).
    Poisson(f64),
    /// Independent arrivals at a rising rate: a Poisson process whose rate grows linearly from 0 to the given number
    /// per second within the given time, and then continues to grow (P1).
    Rising(f64, Duration),
    /// Each client is a terminal with the keying and think times of clause 5.2.5.
    Terminals,
}

impl Pacing {
    /// Returns the requested transactions per second, if a rate is set; for a rising rate, the given maximum.
    pub const fn rate(self) -> Option<f64> {
        match self {
            Self::Rate(per_s) | Self::Poisson(per_s) | Self::Rising(per_s, _) => Some(per_s),
            Self::FlatOut | Self::Terminals => None,
        }
    }
}

/// The stream of the arrival times among the streams of a seed.
const STREAM: u32 = 1 << 30;

/// Hands out the arrival times of a rate.
#[derive(Debug)]
pub(crate) struct Arrivals(Mutex<Moments>);

#[derive(Clone, Debug)]
struct Moments {
    pacing: Pacing,
    chance: Chance,
    handed_out: u64,
    /// The arrival time last handed out, as a sum of intervals drawn with mean 1.
    units: f64,
}

impl Moments {
    /// Returns the next arrival time in nanoseconds since the start; 0 if no rate is set.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times")]
    fn next_ns(&mut self) -> u64 {
        let number = self.handed_out;
        self.handed_out += 1;
        match self.pacing {
            Pacing::Rate(per_s) => (number as f64 * 1e9 / per_s) as u64,
            Pacing::Poisson(per_s) => {
                self.units -= self.chance.share().ln();
                (self.units / per_s * 1e9) as u64
            }
            Pacing::Rising(per_s, within) => {
                self.units -= self.chance.share().ln();
                // The time t at which the expected number of arrivals, per_s t^2 / (2 within), equals the drawn sum.
                ((2.0 * within.as_secs_f64() * self.units / per_s).sqrt() * 1e9) as u64
            }
            Pacing::FlatOut | Pacing::Terminals => 0,
        }
    }
}

impl Arrivals {
    /// Makes the arrival times of `pacing`, drawn from `seed`.
    pub(crate) fn new(pacing: Pacing, seed: u64) -> Self {
        Self(Mutex::new(Moments { pacing, chance: Chance::new(seed, STREAM), handed_out: 0, units: 0.0 }))
    }

    /// Returns the next arrival time in nanoseconds since the start; 0 if no rate is set.
    pub(crate) fn next_ns(&self) -> u64 {
        self.0.lock().next_ns()
    }

    /// Returns the number of arrivals due within `ns` that were not handed out.
    pub(crate) fn left(&self, ns: u64) -> u64 {
        let mut moments = self.0.lock().clone();
        match moments.pacing.rate() {
            None => 0,
            Some(_) => std::iter::repeat_with(|| moments.next_ns()).take_while(|due_ns| *due_ns < ns).count() as u64,
        }
    }
}

/// Returns the keying and think times of a transaction: fixed, and exponential with a limit of ten times the mean.
pub(crate) fn terminal_times(kind: Kind, chance: &mut Chance) -> [Duration; 2] {
    let (keying, think) = kind.times_s();
    let think = (-chance.share().ln()).min(10.0) * f64::from(think);
    [Duration::from_secs(keying.into()), Duration::from_secs_f64(think)]
}

/// Sleeps until `due_ns`, unless it has passed.
pub fn sleep_until(clock: &dyn Clock, due_ns: u64) {
    let now = clock.now_ns();
    if due_ns > now {
        std::thread::sleep(Duration::from_nanos(due_ns - now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: arrivals follow the rate, and the rest is counted. Method: numbers; without a rate.
    #[test]
    fn arrivals_are_even() {
        let arrivals = Arrivals::new(Pacing::Rate(1_000.0), 1);
        let due: Vec<_> = (0..4).map(|_| arrivals.next_ns()).collect();
        assert_eq!(due, [0, 1_000_000, 2_000_000, 3_000_000]);
        assert_eq!((arrivals.left(10_000_000), arrivals.left(1)), (6, 0));
        assert_eq!(Arrivals::new(Pacing::FlatOut, 1).left(u64::MAX), 0);
    }

    /// Goal: the arrivals of a Poisson process follow from the seed, in order, and are independent. Method: 20,000
    /// twice and with another seed; the mean of their intervals matches the rate, and the standard deviation equals
    /// the mean.
    #[test]
    fn poisson_arrivals_are_the_seeds_and_independent() {
        let draw = |seed| {
            let arrivals = Arrivals::new(Pacing::Poisson(1_000.0), seed);
            (0..20_000).map(|_| arrivals.next_ns()).collect::<Vec<_>>()
        };
        let due = draw(1);
        assert!(due.is_sorted() && due == draw(1) && due != draw(2));
        let intervals: Vec<f64> =
            due.windows(2).map(|pair| Duration::from_nanos(pair[1] - pair[0]).as_secs_f64()).collect();
        let mean = intervals.iter().sum::<f64>() / 19_999.0;
        let variance = intervals.iter().map(|interval| (interval - mean).powi(2)).sum::<f64>() / 19_999.0;
        assert!((0.97e-3..1.03e-3).contains(&mean), "{mean}");
        assert!((0.95..1.05).contains(&(variance.sqrt() / mean)), "{variance} and {mean}");
        let arrivals = Arrivals::new(Pacing::Poisson(1_000.0), 1);
        assert!((0..100).all(|at| arrivals.next_ns() == due[at]));
        assert_eq!(arrivals.left(due[150]), 50);
    }

    /// Goal: arrivals at a rising rate follow from the seed, and their number grows with the square of time. Method:
    /// 80,000 expected in four seconds, counted in each of them: 1, 3, 5 and 7 sixteenths; twice, and with another
    /// seed.
    #[test]
    fn rising_arrivals_come_faster_and_faster() {
        let draw = |seed| {
            let arrivals = Arrivals::new(Pacing::Rising(40_000.0, Duration::from_secs(4)), seed);
            std::iter::repeat_with(|| arrivals.next_ns())
                .take_while(|due_ns| *due_ns < 4_000_000_000)
                .collect::<Vec<_>>()
        };
        let due = draw(1);
        assert!(due.is_sorted() && due == draw(1) && due != draw(2));
        for (second, sixteenths) in (0..4).zip([1.0, 3.0, 5.0, 7.0]) {
            let within = second * 1_000_000_000..(second + 1) * 1_000_000_000;
            let count = f64::from(u32::try_from(due.iter().filter(|due_ns| within.contains(*due_ns)).count()).unwrap());
            let expected = 5_000.0 * sixteenths;
            assert!((0.95..1.05).contains(&(count / expected)), "second {second}: {count}, not {expected}");
        }
        let arrivals = Arrivals::new(Pacing::Rising(100.0, Duration::from_secs(1)), 1);
        let all = arrivals.left(1_000_000_000);
        let _first = arrivals.next_ns();
        assert!(all > 0 && arrivals.left(1_000_000_000) == all - 1);
    }

    /// Goal: think times have their mean and bound. Method: 20,000 of them.
    #[test]
    fn think_times_are_exponential() {
        let mut chance = Chance::new(1, 1);
        let all: Vec<_> = (0..20_000).map(|_| terminal_times(Kind::NewOrder, &mut chance)).collect();
        let mean = all.iter().map(|[_, think]| think.as_secs_f64()).sum::<f64>() / 20_000.0;
        assert!((11.5..12.5).contains(&mean), "{mean}");
        assert!(all.iter().all(|[keying, think]| keying.as_secs() == 18 && think.as_secs_f64() <= 120.0));
    }
}
