//! `Settings`: the `training.*` settings of policies.

use super::Bound;

/// Limits of collection. The defaults are those of the configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// `training.collection_delay_bound` (0.10) and `training.collection_delay_floor` (1 ms).
    pub bound: Bound,
    /// `training.collection_delay_max` (100 ms): the delay above which nothing is collected, in us.
    pub delay_us_max: f64,
    /// `training.collection_cpu` (0.25): the share of the machine's cores that collection may use.
    pub cpu_share: f64,
    /// rho_max (0.85): the utilisation of the apply workers that collection must not exceed.
    pub utilisation_max: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bound: Bound { share: 0.10, floor_us: 1000.0 },
            delay_us_max: 100_000.0,
            cpu_share: 0.25,
            utilisation_max: 0.85,
        }
    }
}
