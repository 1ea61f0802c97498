//! [`Effect`]: the effect of a change of a setting on the calls of a unit: on their number, and on the work of each.
//!
//! It is arithmetic of how batches grow with their trigger, and no model of costs, which is the job of the models.

use collie_obs::{UNITS, UnitSchema};
use collie_train::decision::Setting;

/// From this fraction of its limit on, a batch was ended by the limit, and not by a waiting thread.
const ENDED_BY_LIMIT: f64 = 0.8;

/// A round of the garbage collector that began later than this many intervals after the last one came after a pause
/// that had grown while there was nothing to free, or after a long round: the interval did not determine its time.
const IDLE_FROM: f64 = 1.5;

/// A change of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) setting: Setting,
    pub(super) old: f64,
    pub(super) new: f64,
}

impl Change {
    fn factor(&self) -> f64 {
        self.new / self.old
    }
}

/// The features of one call, by name.
#[derive(Debug)]
pub(super) struct Features<'a> {
    unit: &'a UnitSchema,
    values: &'a mut [f64],
}

impl<'a> Features<'a> {
    pub(super) fn new(unit: &'a UnitSchema, values: &'a mut [f64]) -> Self {
        Self { unit, values }
    }

    fn at(&mut self, name: &str) -> Option<&mut f64> {
        let place = self.unit.features.iter().position(|field| field.name == name)?;
        self.values.get_mut(place)
    }

    fn get(&mut self, name: &str) -> f64 {
        self.at(name).map_or(0.0, |value| *value)
    }

    fn scale(&mut self, names: &[&str], factor: f64) {
        for name in names {
            if let Some(value) = self.at(name) {
                *value *= factor;
            }
        }
    }
}

/// Converts the features of a call to those after the change; returns the number of such calls then for each present
/// call.
pub(super) type Effect = fn(&mut Features<'_>, &Change) -> f64;

/// If a batch grows by the factor, there are fewer batches by the same factor.
fn batch(features: &mut Features<'_>, change: &Change, sizes: &[&str]) -> f64 {
    features.scale(sizes, change.factor());
    1.0 / change.factor()
}

fn flush_by_delay(features: &mut Features<'_>, change: &Change) -> f64 {
    if features.get("us_since_last") < ENDED_BY_LIMIT * change.old {
        return 1.0; // a session waited, or there were enough bytes
    }
    batch(features, change, &["stream_bytes", "records", "us_since_last"])
}

fn flush_by_bytes(features: &mut Features<'_>, change: &Change) -> f64 {
    if features.get("stream_bytes") < ENDED_BY_LIMIT * change.old {
        return 1.0;
    }
    batch(features, change, &["stream_bytes", "records", "us_since_last"])
}

fn collect(features: &mut Features<'_>, change: &Change) -> f64 {
    if features.get("rows_visited") == 0.0 || features.get("us_since_last") > IDLE_FROM * change.old {
        return 1.0; // the times of rounds that find nothing, and of the first one after them, do not change
    }
    batch(features, change, &["rows_visited", "versions_freed", "us_since_last"])
}

fn read(features: &mut Features<'_>, change: &Change) -> f64 {
    if let Some(steps) = features.at("chain_steps") {
        // The versions that a read has to pass were not collected yet.
        *steps = if *steps > 1.0 { 1.0 + (*steps - 1.0) * change.factor() } else { *steps };
    }
    1.0
}

fn scan(features: &mut Features<'_>, change: &Change) -> f64 {
    let rows = features.get("rows_examined");
    if let Some(steps) = features.at("chain_steps") {
        // As for a read: one step per row is the version that it ends at.
        *steps = if *steps > rows { rows + (*steps - rows) * change.factor() } else { *steps };
    }
    1.0
}

fn flush_levels(features: &mut Features<'_>, change: &Change) -> f64 {
    batch(features, change, &["rows", "bytes"])
}

fn compact(features: &mut Features<'_>, change: &Change) -> f64 {
    batch(features, change, &["bytes_in"])
}

fn apply(features: &mut Features<'_>, change: &Change) -> f64 {
    if let Some(workers) = features.at("workers") {
        *workers = change.new;
    }
    1.0
}

/// Returns the units that a setting affects, each with the effect of a change on its calls; none for a setting that is
/// read at open only.
pub(super) fn effects(setting: Setting) -> Vec<(&'static UnitSchema, Effect)> {
    let of: &[(&str, Effect)] = match setting {
        Setting::FlushDelay | Setting::ReplicationFlushDelay => &[("LOG_FLUSH", flush_by_delay)],
        Setting::FlushBytes => &[("LOG_FLUSH", flush_by_bytes)],
        Setting::GcInterval => &[("GC_TICK", collect), ("ROW_READ", read), ("SCAN", scan)],
        Setting::WriteBufferSize => &[("FLUSH_LEVELS", flush_levels), ("COMPACT", compact)],
        Setting::ApplyWorkers => &[("APPLY_TXN", apply)],
        Setting::RingSize | Setting::RecentSize => &[],
    };
    let unit = |name: &str| UNITS.iter().find(|unit| unit.name == name);
    of.iter().filter_map(|(name, effect)| Some((unit(name)?, *effect))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(setting: Setting, unit: &str, (old, new): (f64, f64), values: &[(&str, f64)]) -> (f64, Vec<f64>) {
        let (schema, effect) =
            effects(setting).into_iter().find(|(schema, _)| schema.name == unit).expect("a unit that it concerns");
        let mut all = vec![0.0; schema.features.len()];
        let mut features = Features::new(schema, &mut all);
        for (name, value) in values {
            *features.at(name).expect("a feature of the unit") = *value;
        }
        let calls = effect(&mut features, &Change { setting, old, new });
        (calls, values.iter().map(|(name, _)| features.get(name)).collect())
    }

    /// Goal: each setting affects existing units, by features that they have, and its change does to them what growing
    /// batches do. Method: a call of each kind, by hand: one that the limit ended and one that it did not.
    #[test]
    fn calls_become_what_a_change_makes_of_them() {
        let flush = [("stream_bytes", 1000.0), ("us_since_last", 9000.0)];
        let delay = |values: &[(&str, f64)]| after(Setting::FlushDelay, "LOG_FLUSH", (10_000.0, 20_000.0), values);
        assert_eq!(delay(&flush), (0.5, vec![2000.0, 18_000.0]));
        assert_eq!(delay(&[("stream_bytes", 1000.0), ("us_since_last", 500.0)]), (1.0, vec![1000.0, 500.0]));
        let bytes = |values: &[(&str, f64)]| after(Setting::FlushBytes, "LOG_FLUSH", (1000.0, 500.0), values);
        assert_eq!(bytes(&flush), (2.0, vec![500.0, 4500.0]));
        assert_eq!(bytes(&[("stream_bytes", 700.0)]), (1.0, vec![700.0]));
        let collected =
            [("rows_visited", 10.0), ("versions_freed", 20.0), ("live_snapshots", 3.0), ("us_since_last", 2100.0)];
        let gc = |unit, values: &[(&str, f64)]| after(Setting::GcInterval, unit, (2000.0, 4000.0), values);
        assert_eq!(gc("GC_TICK", &collected), (0.5, vec![20.0, 40.0, 3.0, 4200.0]));
        // T166: a round after a pause that had grown in idleness.
        let after_idleness = [("rows_visited", 10.0), ("versions_freed", 20.0), ("us_since_last", 32_000.0)];
        assert_eq!(gc("GC_TICK", &after_idleness), (1.0, vec![10.0, 20.0, 32_000.0]));
        assert_eq!(gc("GC_TICK", &[("rows_visited", 0.0)]), (1.0, vec![0.0]));
        assert_eq!(gc("ROW_READ", &[("chain_steps", 3.0)]), (1.0, vec![5.0]));
        assert_eq!(gc("ROW_READ", &[("chain_steps", 1.0)]), (1.0, vec![1.0]));
        let scanned = [("chain_steps", 30.0), ("rows_examined", 10.0)];
        assert_eq!(gc("SCAN", &scanned), (1.0, vec![50.0, 10.0]));
        assert_eq!(gc("SCAN", &[("chain_steps", 10.0), ("rows_examined", 10.0)]), (1.0, vec![10.0, 10.0]));
        let buffer = |unit, values: &[(&str, f64)]| after(Setting::WriteBufferSize, unit, (64.0, 32.0), values);
        assert_eq!(buffer("FLUSH_LEVELS", &[("rows", 8.0), ("bytes", 80.0)]), (2.0, vec![4.0, 40.0]));
        assert_eq!(buffer("COMPACT", &[("bytes_in", 80.0), ("runs", 3.0)]), (2.0, vec![40.0, 3.0]));
        let workers = [("workers", 4.0), ("rows", 7.0)];
        assert_eq!(after(Setting::ApplyWorkers, "APPLY_TXN", (4.0, 2.0), &workers), (1.0, vec![2.0, 7.0]));
        let at_open = [Setting::RingSize, Setting::RecentSize];
        assert!(at_open.into_iter().all(|setting| effects(setting).is_empty()));
    }
}
