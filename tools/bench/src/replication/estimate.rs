//! `estimate`: the approximate duration of the questions, so that a user with ten minutes does not start an hour of
//! them.
//!
//! It is not a measurement: the times for loading and checking come from runs of an optimized build on two cores.

use std::time::Duration;

use super::settings::{ReplayScheme, ReplicationSettings};
use crate::measures::float;
use crate::txn::count_of;

/// Seconds to start a pair, to load one full-size warehouse of TPC-C until the replica has it, and to check one on
/// both.
const START_S: f64 = 2.0;
const LOAD_S: f64 = 5.0;
const CHECK_S: f64 = 1.5;
/// Bytes per second at which log and rows are made over the wire, and at which a replica that catches up replays log.
const MADE_PER_S: f64 = 50e6;
const CAUGHT_UP_PER_S: f64 = 80e6;
/// Seconds for a failover and the return of the old primary: Collie's, PostgreSQL's.
const FAILOVER_S: [f64; 2] = [2.0, 5.0];
/// Seconds after each run to wait until the replica has caught up, and for the floors.
const BETWEEN_S: f64 = 0.5;

/// Returns the approximate duration of each of `questions` on a machine with `cores` cores, in the same order.
pub(super) fn estimate(
    settings: &ReplicationSettings,
    questions: &[&'static str],
    cores: usize,
) -> Vec<(&'static str, Duration)> {
    questions.iter().map(|name| (*name, Duration::from_secs_f64(seconds(settings, name, count_of(cores))))).collect()
}

fn seconds(settings: &ReplicationSettings, question: &str, cores: f64) -> f64 {
    let warehouses = if settings.small { 0.05 } else { f64::from(settings.warehouses) };
    let (runs, time) = (f64::from(settings.runs), settings.time.as_secs_f64());
    let run = settings.warm_up.as_secs_f64() + time + BETWEEN_S;
    let products = if settings.peer { 2.0 } else { 1.0 };
    let loaded = START_S + warehouses * (LOAD_S + CHECK_S);
    let floors = time / 10.0;
    match question {
        "rate" => {
            let rows = if settings.schemes.contains(&ReplayScheme::Rows) { 1 + settings.workers.len() } else { 0 };
            let arms = count_of(rows + usize::from(settings.schemes.contains(&ReplayScheme::Thesis))) + products - 1.0;
            let rates = count_of(settings.percents.len());
            arms * (loaded + runs * run * (1.0 + rates)) + runs * rates * floors
        }
        "time" => {
            let course = run + 2.0 * time + floors;
            products * (loaded + runs * run + f64::from(settings.courses) * course)
        }
        "sync" => products * (2.0 * START_S + runs * run * 7.0 * count_of(settings.small_clients.len())),
        "capacity" => {
            let replays = cores + 1.0;
            // Each replay begins with the loaded rows; the hot row's has nothing to load.
            runs * (warehouses * LOAD_S * (1.0 + replays / 3.0) + time * (1.0 + replays) + time * (1.0 + cores))
        }
        "catchup" => {
            let back = 2.0 * run + float(settings.behind_bytes) * (1.0 / MADE_PER_S + 1.0 / CAUGHT_UP_PER_S);
            let filled = 2.0 * run + float(settings.backup_bytes) / float(settings.backup_bytes_per_s);
            let ballast = float(settings.backup_bytes) / MADE_PER_S;
            products * (loaded + runs * (run + back + filled) + ballast)
        }
        "delay" => {
            // Ten commits at one per second, and the other rates; and a second until the last one is recorded.
            let slow: f64 = if settings.small { 1.0 } else { 10.0 };
            START_S + runs * (slow.max(time) + 4.0 * (time + 1.2))
        }
        "failover" => {
            let each: f64 = FAILOVER_S.iter().take(if settings.peer { 2 } else { 1 }).sum();
            products * START_S + f64::from(settings.cycles) * each
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 7] = ["delay", "rate", "time", "sync", "capacity", "catchup", "failover"];

    fn minutes(settings: &ReplicationSettings) -> f64 {
        estimate(settings, &ALL, 2).iter().map(|(_, time)| time.as_secs_f64()).sum::<f64>() / 60.0
    }

    /// Goal: each question takes some time, the short plan fits into 25 minutes, and more runs take longer. Method: the
    /// estimates of the three plans.
    #[test]
    fn the_short_plan_fits_into_25_minutes() {
        let full = ReplicationSettings::new("unused".as_ref());
        assert!(estimate(&full.clone().short(), &ALL, 2).iter().all(|(_, time)| *time > Duration::from_secs(5)));
        let (short, quick) = (minutes(&full.clone().short()), minutes(&full.clone().quick()));
        assert!((15.0..=25.0).contains(&short), "{short} minutes");
        assert!(quick < short && minutes(&full) > 2.0 * short, "{quick} minutes, {} minutes", minutes(&full));
        assert_eq!(estimate(&full, &["sync"], 2).len(), 1);
    }
}
