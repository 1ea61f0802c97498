//! The samples that were collected of operating units, as `units`, `samples`, `predictions` and `hardware` of
//! `collie_training` show them.
//!
//! These are plain rows; the collector fills them.

use super::{
    output::Output,
    training::{byte, float, int},
};
use crate::types::Value;

/// The sampling of an operating unit. Counts are since the server was started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitRow {
    /// The unit's number.
    pub unit_id: u8,
    /// Its name.
    pub unit: &'static str,
    /// The probability with which a call is sampled now.
    pub p: f64,
    /// Samples taken, by source in the order of their numbers: `apply`, `local`, `replayed_read`, `calibration`.
    pub by_source: [u64; 4],
    /// Samples that were kept after frequent kinds of calls were thinned.
    pub kept: u64,
    /// Samples that were lost because they were not drained in time.
    pub dropped: u64,
    /// Calls per second, estimated from samples; `None` if the unit was not sampled yet.
    pub calls_per_s: Option<f64>,
    /// The cost of its samples, in microseconds per second.
    pub cost_us_per_s: f64,
    /// Mean absolute percentage error of its model of elapsed time on the newest samples, 0.1 for 10 %; `None` without
    /// a
    /// model or samples.
    pub error: Option<f64>,
    /// Whether that model is stale.
    pub is_stale: Option<bool>,
    /// Whether the unit is not sampled because the grant does not cover its cost.
    pub is_shed: bool,
}

/// A file of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleFileRow {
    /// The unit's number; 0 for context rows.
    pub unit_id: u8,
    /// The unit's name, if it is known here.
    pub unit: Option<&'static str>,
    /// Version of its schema.
    pub version: u8,
    /// The day on which it was closed, as YYYYMMDD in UTC.
    pub day: u32,
    /// The node that wrote it.
    pub node: String,
    /// Its sequence number on that node.
    pub seq: u64,
    /// Its number of rows; `None` for a damaged file.
    pub rows: Option<u64>,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A model's prediction for a sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PredictionRow {
    /// The time at which the sample was drained, in microseconds since 2000-01-01.
    pub at_us: i64,
    /// The unit's number.
    pub unit_id: u8,
    /// Its name.
    pub unit: &'static str,
    /// The name of the predicted label in the unit's schema.
    pub label: &'static str,
    /// The hash of the model's package.
    pub hash: u64,
    /// The predicted value, in the label's unit.
    pub predicted: f64,
    /// The lower end of the interval that should contain nine tenths of the samples.
    pub low: f64,
    /// The upper end of that interval.
    pub high: f64,
    /// The actual value.
    pub seen: f64,
    /// Whether the sample lay outside the range of the samples that the model was fitted to.
    pub is_clamped: bool,
}

/// The hardware of the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HardwareRow {
    /// Hash of the properties that the machine reports; files of samples and packages carry it.
    pub tag: u64,
    /// Names and values: first the reported properties, then the measured ones.
    pub properties: Vec<(&'static str, String)>,
}

pub(super) fn push_unit(row: UnitRow, out: &mut Output<'_>) {
    let [apply, local, replayed_read, calibration] = row.by_source.map(int);
    out.push([
        ("unit_id", byte(row.unit_id)),
        ("unit", Value::text(row.unit)),
        ("p", Value::Float8(row.p)),
        ("samples", int(row.by_source.iter().sum())),
        ("apply", apply),
        ("local", local),
        ("replayed_read", replayed_read),
        ("calibration", calibration),
        ("kept", int(row.kept)),
        ("dropped", int(row.dropped)),
        ("calls_per_s", float(row.calls_per_s)),
        ("cost_us_per_s", Value::Float8(row.cost_us_per_s)),
        ("error", float(row.error)),
        ("is_stale", row.is_stale.map_or(Value::Null, Value::Bool)),
        ("is_shed", Value::Bool(row.is_shed)),
    ]);
}

pub(super) fn push_file(row: SampleFileRow, out: &mut Output<'_>) {
    out.push([
        ("unit_id", byte(row.unit_id)),
        ("unit", row.unit.map_or(Value::Null, Value::text)),
        ("version", byte(row.version)),
        ("day", int(row.day.into())),
        ("node", row.node.into()),
        ("seq", int(row.seq)),
        ("rows", row.rows.map_or(Value::Null, int)),
        ("bytes", int(row.bytes)),
    ]);
}

pub(super) fn push_prediction(row: &PredictionRow, out: &mut Output<'_>) {
    let is_inside = (row.low..=row.high).contains(&row.seen);
    out.push([
        ("at", Value::TimestampTz(row.at_us)),
        ("unit_id", byte(row.unit_id)),
        ("unit", Value::text(row.unit)),
        ("label", Value::text(row.label)),
        ("predicted", Value::Float8(row.predicted)),
        ("low", Value::Float8(row.low)),
        ("high", Value::Float8(row.high)),
        ("seen", Value::Float8(row.seen)),
        ("is_inside", Value::Bool(is_inside)),
        ("is_clamped", Value::Bool(row.is_clamped)),
        ("hash", format!("{:016x}", row.hash).into()),
    ]);
}

pub(super) fn push_hardware(row: HardwareRow, out: &mut Output<'_>) {
    for (property, value) in row.properties {
        out.push([
            ("tag", format!("{:016x}", row.tag).into()),
            ("property", Value::text(property)),
            ("value", value.into()),
        ]);
    }
}
