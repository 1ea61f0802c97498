//! The quorum of a server that has one: when commits begin to do without it, and when they do not any more, is said in the log of the
//! server and in that of the database.

use collie_replica::{
    database::EngineSource,
    primary::{Change, QuorumList, QuorumStat, Source as _},
};

/// Has commits wait for replicas from the first call on that finds a primary, then looks whether they are there. Called with each
/// heartbeat.
pub(super) fn keep_quorum(source: &EngineSource, now_ns: u64) {
    let Some(synchronous) = source.synchronous() else { return };
    if source.database().is_replica() {
        return; // it counts once it is promoted
    }
    if source.begin_to_count() {
        note_quorum(source, &synchronous.stat().list, false);
    }
    let Some(change) = synchronous.tick(source, now_ns) else { return };
    let QuorumStat { list, connected, .. } = synchronous.stat();
    note_quorum(source, &list, change == Change::Degraded);
    match change {
        Change::Degraded => eprintln!(
            "replication is degraded: {connected} of {list} are connected, commits do without them and say so in a warning each"
        ),
        Change::Restored => eprintln!("replication is whole again: commits wait for {list}"),
    }
}

/// Notes in the database's log which replicas commits are to have, or that they do without.
fn note_quorum(source: &EngineSource, list: &QuorumList, degraded: bool) {
    // A log that cannot be written stops all commits, and says so itself.
    if let Err(error) = source.database().note_quorum(&list.to_string(), degraded) {
        eprintln!("the state of replication.quorum is not in the log: {error}");
    }
}
