//! Sampled reads: taken on a primary, run again on a replica.

use std::time::Duration;

use collie_sql::catalog::system::ReadsRow;

use super::super::exposition::{Exposition, Figure, Kind};

/// Adds the outcomes of the reads, by side and, for dropped ones, by reason.
pub(super) fn replayed(out: &mut Exposition, rows: &[ReadsRow]) {
    let mut each = |name: &str, help: &str, figure: &dyn Fn(&ReadsRow) -> Option<Figure>| {
        let samples = rows.iter().filter_map(|row| Some(([("side", row.side)], figure(row)?)));
        out.each(name, Kind::Counter, help, samples);
    };
    each(
        "collie_training_reads_taken_total",
        "Read statements sampled from clients, or received by a replica.",
        &|row| Some(row.taken.into()),
    );
    each("collie_training_reads_shipped_total", "Sampled reads sent, once for each replica.", &|row| {
        row.shipped.map(Into::into)
    });
    each("collie_training_reads_run_total", "Sampled reads run to completion on a replica.", &|row| {
        row.run.map(Into::into)
    });
    each("collie_training_reads_rows_total", "Rows returned by sampled reads.", &|row| Some(row.rows.into()));
    each("collie_training_reads_failed_total", "Sampled reads that failed on a replica.", &|row| {
        row.failed.map(Into::into)
    });
    each("collie_training_reads_seconds_total", "Processor time of sampled reads on a replica.", &|row| {
        row.spent_us.map(|us| Duration::from_micros(us).into())
    });
    let dropped = rows.iter().flat_map(|row| {
        let reasons = [
            ("late", Some(row.late)),
            ("queue_full", Some(row.full)),
            ("unfit", Some(row.unfit)),
            ("unknown", row.unknown),
        ];
        let sample = |(reason, count): (&'static str, Option<u64>)| {
            Some(([("side", row.side), ("reason", reason)], Figure::from(count?)))
        };
        reasons.into_iter().filter_map(sample)
    });
    out.each("collie_training_reads_dropped_total", Kind::Counter, "Sampled reads dropped, by reason.", dropped);
}
