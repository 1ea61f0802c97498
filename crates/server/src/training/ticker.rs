//! [`tick`]: the task that decides ten times a second how much may be collected, while the server follows a primary.

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};

use super::{
    sensors::Sensors,
    state::{Life, Training},
};

/// The length that policies assume (`collie_train::policy::TICK_US`).
const TICK: Duration = Duration::from_millis(100);

/// Withdraws the grant when the task ends, also by a panic or an abort (A2).
struct Granting(Arc<Training>, Life);

impl Drop for Granting {
    fn drop(&mut self) {
        self.0.end(self.1, "it follows no primary");
    }
}

/// Ticks until `life` is over.
pub(crate) async fn tick(training: Arc<Training>, life: Life, mut sensors: Sensors) {
    let granting = Granting(training, life);
    let mut ticks = interval(TICK);
    // A late tick counts as one tick, with correct rates; missed ticks are not made up for.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        if !granting.0.tick(life, &sensors.read()) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the task ticks as often as policies assume. Method: both numbers.
    #[test]
    fn a_tick_is_what_policies_take_it_to_be() {
        assert_eq!(TICK.as_secs_f64() * 1e6, collie_train::policy::TICK_US);
    }
}
