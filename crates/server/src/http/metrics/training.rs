//! How much a replica may collect, whether its delay stays inside the bound, what was collected, and decisions about
//! settings.

use std::{collections::BTreeMap, time::Duration};

use collie_sql::catalog::system::{DecisionRow, PolicyRow, UnitRow};
use collie_train::decision::Verdict;

use super::super::exposition::{Exposition, Figure, Kind};

/// Returns a number of microseconds as a time; `None` if it is unknown, or is no time.
fn time(us: Option<f64>) -> Option<Figure> {
    us.and_then(|us| Duration::try_from_secs_f64(us / 1e6).ok()).map(Figure::from)
}

/// Adds all figures of the policy. Microseconds of work per second are exported as cores.
pub(super) fn policy(out: &mut Exposition, row: &PolicyRow) {
    let work = |us: u64| Figure::from(Duration::from_micros(us));
    let mut gauge = |name: &str, help: &str, figure: Figure| out.one(name, Kind::Gauge, help, figure);
    gauge("collie_training_granted_cores", "Cores that collection may use.", work(row.grant_us_per_s));
    gauge(
        "collie_training_elastic_cores",
        "Part of collection's cores for deferrable work.",
        work(row.elastic_us_per_s),
    );
    let times = [
        ("collie_training_delay_seconds", "Median delay of the newest commits; absent without commits.", row.delay_us),
        ("collie_training_delay_without_seconds", "Delay without collection; absent if unknown.", row.without_us),
        ("collie_training_bound_seconds", "Bound of the median delay of a second; absent if unknown.", row.bound_us),
    ];
    for (name, help, us) in times {
        time(us).into_iter().for_each(|figure| gauge(name, help, figure));
    }
    let mut count = |name: &str, help: &str, figure: Figure| out.one(name, Kind::Counter, help, figure);
    let help = "Processor time of deferrable work of collection.";
    count("collie_training_elastic_seconds_total", help, work(row.elastic_spent_us));
    count(
        "collie_training_windows_total",
        "Seconds in which the delay was compared with the bound.",
        row.windows.into(),
    );
    count(
        "collie_training_out_windows_total",
        "Seconds in which the delay was above the bound.",
        row.out_windows.into(),
    );
    let help = "Seconds in which the delay could not be compared with the bound.";
    count("collie_training_unknown_windows_total", help, row.unknown_windows.into());
    let samples = row.halts.iter().map(|(reason, count)| ([("reason", *reason)], (*count).into()));
    out.each(
        "collie_training_halts_total",
        Kind::Counter,
        "Number of times that collection was halted, by reason.",
        samples,
    );
    let is_collecting = row.samples == "collecting";
    out.one("collie_training_collecting", Kind::Gauge, "Whether samples are collected.", is_collecting);
    let mut count = |name: &str, help: &str, figure: Figure| out.one(name, Kind::Counter, help, figure);
    let help = "Processor time of taking and keeping samples.";
    count("collie_training_samples_seconds_total", help, work(row.samples_spent_us));
    count("collie_training_rows_written_total", "Sample rows written to files.", row.samples_written.into());
    count("collie_training_rows_lost_total", "Sample rows that could not be written.", row.samples_lost.into());
    out.one("collie_training_samples_bytes", Kind::Gauge, "Bytes of sample files.", row.samples_bytes);
    let fits = row.fits.iter().map(|(result, count)| ([("result", *result)], (*count).into()));
    out.each("collie_training_fits_total", Kind::Counter, "Fits of models, by outcome.", fits);
}

/// Adds the samples of each unit.
pub(super) fn units(out: &mut Exposition, rows: &[UnitRow]) {
    let mut each = |name: &str, help: &str, figure: &dyn Fn(&UnitRow) -> u64| {
        out.each(name, Kind::Counter, help, rows.iter().map(|row| ([("unit", row.unit)], figure(row).into())));
    };
    each("collie_training_samples_total", "Samples of operating units.", &|row| row.by_source.iter().sum());
    let help = "Samples dropped because the collector was late.";
    each("collie_training_samples_dropped_total", help, &|row| row.dropped);
}

/// Adds the number of changes by stage, and the current values of the settings that decisions may change.
pub(super) fn decisions(out: &mut Exposition, rows: &[DecisionRow], settings: &[(&'static str, u64)]) {
    let mut counts: BTreeMap<&str, u64> = Verdict::WORDS.into_iter().map(|word| (word, 0)).collect();
    rows.iter().for_each(|row| *counts.entry(row.verdict).or_default() += 1);
    let samples = counts.into_iter().map(|(verdict, count)| ([("verdict", verdict)], count.into()));
    let help = "Changes of settings proposed by models that are in the journal, by state.";
    out.each("collie_training_decisions", Kind::Gauge, help, samples);
    let samples = settings.iter().map(|(setting, value)| ([("setting", *setting)], (*value).into()));
    let help = "Effective values of the settings that decisions may change on this node: us, bytes or a count.";
    out.each("collie_training_setting", Kind::Gauge, help, samples);
}
