//! `PolicyKind`: policies by name.

use super::{Aimd, Always, HardLimit, Headroom, Nothing, Policy, Settings, Sigma, Switchback};

/// The delay that P5 stays below, in us.
const AIMD_TARGET_US: f64 = 2000.0;

/// The policies that decide how much is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// P0.
    Nothing,
    /// P1.
    Always,
    /// P2.
    HardLimit,
    /// P3.
    Sigma,
    /// P4.
    Switchback,
    /// P5.
    Aimd,
    /// P6, the default on replicas.
    Headroom,
}

impl PolicyKind {
    /// All of them, P0 first.
    pub const ALL: [Self; 7] =
        [Self::Nothing, Self::Always, Self::HardLimit, Self::Sigma, Self::Switchback, Self::Aimd, Self::Headroom];

    /// Returns the name that the configuration uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Always => "always",
            Self::HardLimit => "hard_limit",
            Self::Sigma => "k_sigma",
            Self::Switchback => "switchback",
            Self::Aimd => "aimd",
            Self::Headroom => "headroom",
        }
    }

    /// Finds a policy by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Starts the policy.
    pub fn start(self, settings: &Settings) -> Box<dyn Policy> {
        match self {
            Self::Nothing => Box::new(Nothing),
            Self::Always => Box::new(Always),
            Self::HardLimit => Box::new(HardLimit::new(settings.delay_us_max)),
            Self::Sigma => Box::new(Sigma::default()),
            Self::Switchback => Box::new(Switchback::new(settings.bound.share)),
            Self::Aimd => Box::new(Aimd::new(AIMD_TARGET_US)),
            Self::Headroom => Box::new(Headroom::new(settings)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every policy is found by its name only. Method: all names, and an unknown one.
    #[test]
    fn policies_are_found_by_name() {
        for kind in PolicyKind::ALL {
            assert_eq!(PolicyKind::named(kind.name()), Some(kind));
        }
        assert_eq!(PolicyKind::named("pilot"), None);
    }
}
