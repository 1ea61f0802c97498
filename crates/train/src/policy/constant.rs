//! P0 and P1: grants that depend on no measurement.

use super::{Grant, Policy, Signals};

/// P0: nothing is collected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Policy for Nothing {
    fn tick(&mut self, _: &Signals) -> Grant {
        Grant::NONE
    }
}

/// P1: all that is offered is collected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Always;

impl Policy for Always {
    fn tick(&mut self, signals: &Signals) -> Grant {
        Grant { collect_us_per_s: signals.offered_us_per_s }
    }
}
