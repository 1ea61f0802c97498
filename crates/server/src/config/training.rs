//! [`Training`]: the settings `training.*`.

use std::time::Duration;

use collie_base::parse_time;
use collie_train::{
    decision::Mode,
    policy::{Bound, PolicyKind, Settings},
};

use super::parse_bytes;

/// The settings of collection, and of the use of its results.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    /// `training.collection_policy`.
    pub policy: PolicyKind,
    /// `training.collection_delay_bound`: 0.1 for 10 %.
    pub delay_bound: f64,
    /// `training.collection_delay_floor`.
    pub delay_floor: Duration,
    /// `training.collection_delay_max`.
    pub delay_max: Duration,
    /// `training.collection_cpu`: 0.25 for 25 %.
    pub cpu: f64,
    /// `training.samples_bytes`.
    pub samples_bytes: u64,
    /// `training.read_share`: 0.01 for 1 %.
    pub read_share: f64,
    /// `training.apply`.
    pub apply: Mode,
    /// `training.samples`.
    pub samples: bool,
    /// `training.fit_interval`; `None`: never.
    pub fit_interval: Option<Duration>,
    /// `training.shadow_time`.
    pub shadow_time: Duration,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            policy: PolicyKind::Headroom,
            delay_bound: 0.10,
            delay_floor: Duration::from_millis(1),
            delay_max: Duration::from_millis(100),
            cpu: 0.25,
            samples_bytes: 4 << 30,
            read_share: 0.01,
            apply: Mode::Propose,
            samples: true,
            fit_interval: Some(Duration::from_secs(3600)),
            shadow_time: Duration::from_secs(3600),
        }
    }
}

fn us(time: Duration) -> f64 {
    time.as_micros() as f64
}

/// Parses a fraction: `0.25`, `25%` or `25 %`; returns `None` for other texts, and for negative or infinite numbers.
fn parse_share(text: &str) -> Option<f64> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (text, 1.0),
    };
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    number.parse().ok().filter(|_| is_number).map(|number: f64| number / unit)
}

impl Training {
    /// Sets the key `name`; the caller has checked a value that must be one of several words.
    ///
    /// # Errors
    /// The expected values, in words.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let share = || parse_share(value).ok_or_else(|| "expected a part, as in 0.1 or 10%".to_owned());
        let time = || parse_time(value).ok_or_else(|| "expected a time, as in 500us, 10ms or 1s".to_owned());
        let within = |is_within: bool, wanted: &str| if is_within { Ok(()) } else { Err(format!("expected {wanted}")) };
        match name {
            "training.apply" => {
                self.apply = match value {
                    "off" => Mode::Off,
                    "canary" => Mode::Canary,
                    _ => Mode::Propose,
                }
            }
            "training.collection_cpu" => {
                let part = share()?;
                within(part > 0.0 && part <= 1.0, "more than 0, at most 100%")?;
                self.cpu = part;
            }
            "training.collection_delay_bound" => {
                let part = share()?;
                within(part <= 10.0, "0 to 1000%")?;
                self.delay_bound = part;
            }
            "training.collection_delay_floor" => {
                let floor = time()?;
                within(floor <= Duration::from_secs(10), "0 to 10s")?;
                self.delay_floor = floor;
            }
            "training.collection_delay_max" => {
                let most = time()?;
                within((Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&most), "1ms to 1h")?;
                self.delay_max = most;
            }
            "training.collection_policy" => {
                let names = || PolicyKind::ALL.map(PolicyKind::name).join(", ");
                self.policy = PolicyKind::named(value).ok_or_else(|| format!("expected one of {}", names()))?;
            }
            "training.fit_interval" => {
                let interval = time()?;
                within(interval <= Duration::from_secs(30 * 86_400), "0 to 30 days")?;
                self.fit_interval = (!interval.is_zero()).then_some(interval);
            }
            "training.samples" => {
                self.samples = match value {
                    "on" => true,
                    "off" => false,
                    _ => return Err("expected one of on, off".to_owned()),
                }
            }
            "training.shadow_time" => {
                let time = time()?;
                within(time <= Duration::from_secs(30 * 86_400), "0 to 30 days")?;
                self.shadow_time = time;
            }
            "training.read_share" => {
                let part = share()?;
                within(part <= 1.0, "0 to 100%")?;
                self.read_share = part;
            }
            "training.samples_bytes" => {
                let bytes = parse_bytes(value).ok_or("expected bytes, as in 65536, 64KiB or 16MiB")?;
                within(bytes >= 1 << 20, "1MiB or more")?;
                self.samples_bytes = bytes;
            }
            other => unreachable!("{other} is in the table and has no arm"),
        }
        Ok(())
    }

    /// Returns the settings of policies.
    pub(crate) fn policy_settings(&self) -> Settings {
        Settings {
            bound: Bound { share: self.delay_bound, floor_us: us(self.delay_floor) },
            delay_us_max: us(self.delay_max),
            cpu_share: self.cpu,
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a fraction is parsed in its usual notations, and nothing else is one. Method: a table.
    #[test]
    fn parts_are_numbers_or_per_cents() {
        for (text, part) in [("0.25", 0.25), ("25%", 0.25), ("25 %", 0.25), ("0", 0.0), ("1.5", 1.5), ("1000%", 10.0)] {
            assert_eq!(parse_share(text), Some(part), "{text}");
        }
        for text in ["", "%", "-1", "1e3", "inf", "NaN", "1.2.3", "one", "10%%", "+1"] {
            assert_eq!(parse_share(text), None, "{text}");
        }
    }

    /// Goal: policies get the values that were set, and the defaults agree with their own. Method: both.
    #[test]
    fn policies_get_what_was_set() {
        assert_eq!(Training::default().policy_settings(), Settings::default());
        let mut training = Training::default();
        for (name, value) in [
            ("training.collection_delay_bound", "20%"),
            ("training.collection_delay_floor", "500us"),
            ("training.collection_delay_max", "2s"),
            ("training.collection_cpu", "0.5"),
        ] {
            training.set(name, value).unwrap();
        }
        let bound = Bound { share: 0.2, floor_us: 500.0 };
        let expected = Settings { bound, delay_us_max: 2e6, cpu_share: 0.5, ..Settings::default() };
        assert_eq!(training.policy_settings(), expected);
    }
}
