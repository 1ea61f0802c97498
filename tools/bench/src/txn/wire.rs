//! The shared parts of the sections over the wire: rows of loads that pgbench ran.

use super::counted;
use crate::{
    measures::median,
    report::Row,
    servers::{Done, PEER, Server, Servers},
};

/// Returns committed transactions per second of each run.
pub(crate) fn rates(runs: &[Done]) -> Vec<f64> {
    runs.iter().map(|done| done.tps).collect()
}

/// Returns the peer's rate in case `case`, if the peer runs.
pub(crate) fn peer_rate(servers: &Servers, all: &[Vec<Vec<Done>>], case: usize) -> Option<f64> {
    servers.peer().map(|at| median(&rates(&all[at][case])))
}

/// Returns the row of a server under a load.
pub(crate) fn row(server: &Server, case: String, level: &'static str, runs: &[Done]) -> Row {
    Row::new(server.name(), case, level, server.ring())
        .runs("commits_per_s", &rates(runs))
        .each("p50_us", runs, Done::p50_us)
        .each("p99_us", runs, Done::p99_us)
}

/// Adds the ratio to the peer's rate to a row, and returns the ratio too.
pub(crate) fn beside_peer(row: Row, server: &Server, runs: &[Done], peer: Option<f64>) -> (Row, Option<f64>) {
    let ratio = server.by_peer(median(&rates(runs)), peer);
    (if let Some(ratio) = ratio { row.beside(PEER, ratio) } else { row }, ratio)
}

/// Returns for example "8 clients".
pub(crate) fn clients(count: usize) -> String {
    counted(count, "client")
}
