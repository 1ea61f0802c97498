//! The figures of a server for Prometheus. They come from existing views and counters: none is kept for this purpose.
//!
//! | file | what |
//! |---|---|
//! | `node.rs` | the identity of the server, its transactions and sessions |
//! | `log.rs` | positions, flushes and files of the log, and waits for them |
//! | `store.rs` | memory, rows, flushes and LSM levels, by family |
//! | `reads.rs` | sampled reads |
//! | `redundancy.rs` | replicas, slots, the quorum, and the primary that a replica follows |
//! | `training.rs` | how much a replica may collect, what it has collected, and decisions about settings |
//!
//! `docs/http.md` explains each figure; the clients' tests compare it with the answers.

mod log;
mod node;
mod reads;
mod redundancy;
mod store;
mod training;

use collie_sql::session::Database;

use super::{
    answers::{Limits, is_ready},
    exposition::{Exposition, Kind},
    readiness::Closed,
};

/// Returns the figures of a server with an open database. Takes short locks, and may wait while a flush of the log
/// assembles its frame.
pub(super) fn of(database: &Database, limits: Limits) -> String {
    let mut out = Exposition::default();
    node::build(&mut out);
    node::readiness(&mut out, is_ready(&database.health()));
    node::identity(&mut out, &database.node());
    node::commits(&mut out, &database.commit_times());
    node::sessions(&mut out, database, limits);
    let figures = database.store_figures();
    log::positions(&mut out, database.engine());
    log::figures(&mut out, &figures);
    store::memory(&mut out, &figures.stats);
    store::queries(&mut out, database.resources().memory());
    store::levels(&mut out, &figures.stats);
    store::rot(&mut out, database.engine().scrub_stat());
    store::families(&mut out, &figures);
    redundancy::replicas(&mut out, database.engine().durable(), &database.standbys());
    redundancy::slots(&mut out, &database.slots());
    if let Some(quorum) = database.quorum() {
        redundancy::quorum(&mut out, &quorum);
    }
    if let Some(following) = database.following() {
        redundancy::following(&mut out, &following);
    }
    if let Some(shown) = database.training() {
        training::policy(&mut out, &shown.policy());
        training::units(&mut out, &shown.units());
        training::decisions(&mut out, &shown.decisions(), &shown.decided_settings());
    }
    reads::replayed(&mut out, &database.replayed_reads());
    out.text()
}

/// Returns the figures of a server that has no database now.
pub(super) fn without_database(closed: &Closed) -> String {
    let mut out = Exposition::default();
    node::build(&mut out);
    node::readiness(&mut out, false);
    if let Some(percent) = closed.percent {
        out.one(
            "collie_opening_percent",
            Kind::Gauge,
            "Progress of the current phase of opening, in percent.",
            percent,
        );
    }
    out.text()
}
