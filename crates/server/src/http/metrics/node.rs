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
    out.each("collie_build_info", Kind::Gauge, "The version of the program.", [sample]);
}

/// Adds whether clients are served.
pub(super) fn readiness(out: &mut Exposition, is_ready: bool) {
    out.one("collie_ready", Kind::Gauge, "Whether /readyz says that clients are served.", is_ready);
}

/// Adds the role, the terms, and the outcomes of transactions.
pub(super) fn identity(out: &mut Exposition, node: &NodeRow) {
    let leads = !node.is_replica;
    out.one("collie_primary", Kind::Gauge, "Whether it leads; a replica follows.", leads);
    out.one("collie_term", Kind::Gauge, "The term of its newest record.", node.term);
    if let Some(promised) = node.promised {
        out.one("collie_promised_term", Kind::Gauge, "The highest term that it has promised or leads in.", promised);
    }
    let (commits, aborts) = (node.commits, node.aborts);
    out.one("collie_commits_total", Kind::Counter, "Transactions that wrote and committed.", commits);
    out.one("collie_aborts_total", Kind::Counter, "Transactions that had begun to write and were rolled back.", aborts);
}

/// Adds the waiting times of the newest commits.
pub(super) fn commits(out: &mut Exposition, row: &CommitsRow) {
    let quantiles = [("0.5", row.p50_us), ("0.99", row.p99_us), ("1", row.max_us)];
    let samples = quantiles.map(|(quantile, us)| ([("quantile", quantile)], Duration::from_micros(us).into()));
    let help = "Percentiles of how long commits of the last ten to twenty seconds waited; 0: there were none.";
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
    out.each("collie_sessions", Kind::Gauge, "Sessions of clients, by what they do.", samples);
    out.one("collie_connections_max", Kind::Gauge, "Connections there may be.", limits.connections_max);
}
