//! Positions, flushes and files of the log, and waits for them.

use collie_base::Lsn;
use collie_engine::Db;
use collie_sql::catalog::system::StoreFigures;

use super::super::exposition::{Exposition, Kind};

/// Adds the positions of the log.
pub(super) fn positions(out: &mut Exposition, db: &Db) {
    let mut at = |name: &str, help: &str, lsn: Lsn| out.one(name, Kind::Gauge, help, lsn.get());
    at("collie_log_durable_lsn", "Durable position: the log below it is on disk.", db.durable());
    at(
        "collie_log_boundary_lsn",
        "Boundary: every record below it is complete, and new snapshots see it.",
        db.boundary(),
    );
    at("collie_log_shown_lsn", "Position of new read-only snapshots.", db.shown());
    if let Some(log) = db.log() {
        at("collie_log_next_lsn", "Next free position of the log.", log.glsn());
    }
    if db.confirmed().is_some() {
        at(
            "collie_log_settled_lsn",
            "Quorum-durable position: the log below it is on the disks of the quorum.",
            db.settled(),
        );
    }
    if let Some(received) = db.received() {
        at("collie_log_received_lsn", "End of the log that a replica has received.", received);
    }
}

/// Adds counters and the state of the log.
pub(super) fn figures(out: &mut Exposition, figures: &StoreFigures) {
    let Some(log) = &figures.stats.log else { return };
    let mut count = |name: &str, help: &str, count: u64| out.one(name, Kind::Counter, help, count);
    count("collie_log_frames_total", "Frames of the log written.", log.frames);
    count("collie_log_stream_bytes_total", "Bytes of log records written.", log.stream_bytes);
    count("collie_log_written_bytes_total", "Bytes of log frames written, with headers and padding.", log.file_bytes);
    count("collie_log_syncs_total", "Successful syncs of log files.", log.syncs);
    count("collie_log_flush_syncs_total", "Successful syncs of log files by flushes.", log.timed_syncs);
    count("collie_log_ring_full_total", "Appends that waited because the ring was full.", log.ring_full);
    count("collie_log_rewrites_total", "Log files replaced after a failed write or sync.", log.rewrites);
    let help = "Time spent in syncs by flushes of the log.";
    out.one("collie_log_flush_sync_seconds_total", Kind::Counter, help, log.sync_time);
    let age = log.in_flight_age.unwrap_or_default();
    out.one("collie_log_flush_age_seconds", Kind::Gauge, "Age of the flush of the log that is in progress.", age);
    let mut gauge = |name: &str, help: &str, figure: u64| out.one(name, Kind::Gauge, help, figure);
    let size = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
    gauge("collie_log_files", "Log files with records.", size(log.segments));
    gauge("collie_log_files_ahead", "Log files prepared in advance.", size(log.spares));
    let start = figures.stats.flush.log_start.max(Lsn::FIRST);
    let kept = figures.positions.0.get().saturating_sub(start.get());
    gauge("collie_log_kept_bytes", "Bytes of log that unflushed rows need.", kept);
    gauge("collie_log_limit_bytes", "Length of the log at which tables are flushed.", figures.log_bytes_max);
    gauge("collie_log_poisoned", "Whether the log has stopped after a failed write or sync.", u64::from(log.poisoned));
    gauge(
        "collie_log_full",
        "Whether the log refuses records because the disk is full.",
        u64::from(log.full.is_some()),
    );
    let copies: Vec<(String, bool)> =
        log.copies.iter().map(|copy| (copy.dir.display().to_string(), copy.why.is_empty())).collect();
    let samples = copies.iter().map(|(dir, is_well)| ([("dir", &**dir)], (*is_well).into()));
    out.each("collie_log_copy_up", Kind::Gauge, "Whether this copy of the log is in use.", samples);
    stalls(out, figures);
}

/// Adds the waits of writers for flushes.
fn stalls(out: &mut Exposition, figures: &StoreFigures) {
    let stalls = &figures.stats.stalls;
    let kinds = [("slowed", stalls.slowed), ("stopped", stalls.stopped)];
    let help = "Number of times that writers waited because the log was too long.";
    let counts = kinds.map(|(kind, stalls)| ([("kind", kind)], stalls.count.into()));
    out.each("collie_write_stalls_total", Kind::Counter, help, counts);
    let times = kinds.map(|(kind, stalls)| ([("kind", kind)], stalls.time.into()));
    out.each(
        "collie_write_stall_seconds_total",
        Kind::Counter,
        "Time that writers waited because the log was too long.",
        times,
    );
    out.one(
        "collie_writers_stalled",
        Kind::Gauge,
        "Writers that wait now because the log is too long.",
        stalls.waiting,
    );
    let help = "Whether every new writer waits for a flush.";
    out.one("collie_writes_stopped", Kind::Gauge, help, u64::from(stalls.is_stopped));
    out.one(
        "collie_flush_failing",
        Kind::Gauge,
        "Whether flushes of tables fail now.",
        u64::from(stalls.trouble.is_some()),
    );
}
