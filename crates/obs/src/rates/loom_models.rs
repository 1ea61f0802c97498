//! Loom model of the table of probabilities on its own type: a thread that sees a base draws with the probabilities
//! set with it.

use collie_sync::Arc;
use collie_sync::model::{bounds, check};
use collie_sync::thread;

use super::{Publisher, RateTable, Rates};
use crate::source::Source;

const UNIT: u8 = 2;

/// One thread publishes three tables, and another reads twice.
fn publisher_and_thread() {
    let rates = Arc::new(Rates::new());
    let table = |p: f32| {
        let mut table = RateTable::off();
        table.set(UNIT, Source::Apply, p);
        table
    };
    let mut publisher = Publisher::new();
    rates.publish(&mut publisher, &table(0.25), false);
    let looking = thread::spawn({
        let rates = Arc::clone(&rates);
        move || {
            for _ in 0..2 {
                let epoch = rates.base(UNIT) >> 32;
                let p = rates.p(UNIT, Source::Apply);
                let at_least = [0.0, 0.25, 0.5, 1.0][usize::try_from(epoch).expect("three epochs")];
                assert!(p >= at_least, "R2: {p} in epoch {epoch}");
            }
        }
    });
    rates.publish(&mut publisher, &table(0.5), false);
    rates.publish(&mut publisher, &table(1.0), false);
    looking.join().expect("it ends");
}

/// Goal: R2. Method: probabilities that grow with the epoch; each ordering weakened.
#[test]
fn loom_rates_are_those_of_the_epoch_or_later() {
    let (preemptions, floor) = bounds((3, 30), (5, 50));
    let mistakes = [("RATES_BASE_STORE", 3, "R2"), ("RATES_BASE_LOAD", 3, "R2")];
    check("rates", publisher_and_thread, preemptions, floor, &mistakes);
}
