//! The identity of the server, its transactions and sessions.

use std::{collections::BTreeMap, time::Duration};

use collie_sql::{
    catalog::system::{CommitsRow, NodeRow, State},
    session::Database,
};

use super::{
    super::exposition::{Exposition, Kind},
    Limits,
};

/// Adds the program's version, as a label.
pub(super) fn build(out: &mut Exposition) {
    let sample = ([("version", env!("CARGO_PKG_VERSION"))], true.into());
    out.each("collie_build_info", Kind::Gauge, "Version of the program; always 1.", [sample]);
}

/// Adds whether clients are served.
pub(super) fn readiness(out: &mut Exposition, is_ready: bool) {
    out.one("collie_ready", Kind::Gauge, "Whether /readyz answers that the server is ready.", is_ready);
}

/// Adds the role, the terms, and the outcomes of transactions.
pub(super) fn identity(out: &mut Exposition, node: &NodeRow) {
    let leads = !node.is_replica;
    out.one("collie_primary", Kind::Gauge, "Whether this node is the primary.", leads);
    out.one("collie_term", Kind::Gauge, "Term of the newest record.", node.term);
    if let Some(promised) = node.promised {
        out.one("collie_promised_term", Kind::Gauge, "Highest term that this node has promised or leads.", promised);
    }
    let (commits, aborts) = (node.commits, node.aborts);
    out.one("collie_commits_total", Kind::Counter, "Transactions that wrote and committed.", commits);
    out.one("collie_aborts_total", Kind::Counter, "Transactions that wrote and were rolled back.", aborts);
}

/// Adds the waiting times of the newest commits.
pub(super) fn commits(out: &mut Exposition, row: &CommitsRow) {
    let quantiles = [("0.5", row.p50_us), ("0.99", row.p99_us), ("1", row.max_us)];
    let samples = quantiles.map(|(quantile, us)| ([("quantile", quantile)], Duration::from_micros(us).into()));
    let help = "Percentiles of the time that commits of the last ten to twenty seconds waited; 0 if there were none.";
    out.each("collie_recent_commit_seconds", Kind::Gauge, help, samples);
}

/// Adds the numbers of sessions.
pub(super) fn sessions(out: &mut Exposition, database: &Database, limits: Limits) {
    let states = [State::Active, State::Idle, State::InTransaction, State::InFailedTransaction].map(State::words);
    let mut counts: BTreeMap<&str, u64> = states.into_iter().map(|state| (state, 0)).collect();
    for (_, session) in database.connected() {
        *counts.entry(session.activity.doing().state.words()).or_default() += 1;
    }
    let samples = counts.into_iter().map(|(state, count)| ([("state", state)], count.into()));
    out.each("collie_sessions", Kind::Gauge, "Client sessions by state.", samples);
    out.one(
        "collie_connections_max",
        Kind::Gauge,
        "Limit of client connections (server.max_connections).",
        limits.connections_max,
    );
}
