//! Replicas, slots, the quorum, and the primary that a replica follows.

use std::time::Duration;

use collie_base::Lsn;
use collie_sql::catalog::system::{
    DelayFigures, FollowingRow, FollowingState, QuorumRow, QuorumState, SlotRow, Standby,
};

use super::super::exposition::{Exposition, Figure, Kind, micros};

/// Adds a gauge with a sample for each row, labelled with the name of its slot; rows without the figure have none.
fn by_slot<R>(
    out: &mut Exposition,
    (name, help): (&str, &str),
    rows: &[R],
    slot: fn(&R) -> &str,
    figure: impl Fn(&R) -> Option<Figure>,
) {
    let samples = rows.iter().filter_map(|row| Some(([("slot", slot(row))], figure(row)?)));
    out.each(name, Kind::Gauge, help, samples);
}

/// Adds the positions and delays of each replica; `durable` is the position of this server.
pub(super) fn replicas(out: &mut Exposition, durable: Lsn, replicas: &[Standby]) {
    let mut each = |name: &str, help: &str, figure: &dyn Fn(&Standby) -> Option<Figure>| {
        by_slot(out, (name, help), replicas, |row| &row.slot, figure);
    };
    each("collie_replica_connected", "Whether a replica is connected.", &|row| Some(row.is_connected.into()));
    let help = "How much later its readers saw commits, in the mean of a second; absent while none are measured.";
    each("collie_replica_delay_seconds", help, &|row| row.delay.map(|delay| micros(delay.mean_us).into()));
    each("collie_replica_oldest_seconds", "For how long it has owed the oldest of what it does not show.", &|row| {
        Some(micros(row.oldest_us).into())
    });
    each("collie_replica_behind_bytes", "Bytes of log that its readers do not see.", &|row| {
        Some(durable.bytes_since(row.applied.min(durable)).into())
    });
    each("collie_replica_queue_bytes", "Bytes that wait there to be applied.", &|row| Some(row.queue_bytes.into()));
    each("collie_replica_round_trip_seconds", "The shortest round trip to it.", &|row| {
        row.rtt_us.map(|us| micros(us).into())
    });
    each("collie_replica_sent_lsn", "Sent to it.", &|row| Some(row.sent.get().into()));
    each("collie_replica_received_lsn", "In its log.", &|row| Some(row.received.get().into()));
    each("collie_replica_durable_lsn", "On its disk.", &|row| Some(row.durable.get().into()));
    each("collie_replica_applied_lsn", "Seen by its readers.", &|row| Some(row.applied.get().into()));
    let quantiles = |delay: DelayFigures| [("0.5", delay.p50_us), ("0.99", delay.p99_us), ("1", delay.max_us)];
    let samples = replicas.iter().flat_map(|row| {
        let quantiles = row.delay_recent.into_iter().flat_map(quantiles);
        quantiles.map(move |(quantile, us)| ([("slot", &*row.slot), ("quantile", quantile)], micros(us).into()))
    });
    let help = "Percentiles of its delay in the last minute or two; absent if none was measured.";
    out.each("collie_replica_recent_delay_seconds", Kind::Gauge, help, samples);
}

/// Adds the log that is kept for each replica, and its limits.
pub(super) fn slots(out: &mut Exposition, slots: &[SlotRow]) {
    let mut each = |name: &str, help: &str, figure: &dyn Fn(&SlotRow) -> Option<Figure>| {
        by_slot(out, (name, help), slots, |row| &row.slot, figure);
    };
    each("collie_slot_kept_bytes", "Bytes in log files that are kept for a slot.", &|row| Some(row.kept_bytes.into()));
    each("collie_slot_limit_bytes", "How many may be.", &|row| Some(row.bytes_max.into()));
    each("collie_slot_unheard_seconds", "For how long nobody has heard of its replica.", &|row| {
        Some(Duration::from_millis(u64::try_from(row.unheard_ms).unwrap_or(0)).into())
    });
    each("collie_slot_expired", "Whether it keeps no log any more.", &|row| Some(row.expired_by.is_some().into()));
}

/// Adds the state of the quorum that commits wait for.
pub(super) fn quorum(out: &mut Exposition, quorum: &QuorumRow) {
    let mut gauge = |name: &str, help: &str, figure: Figure| out.one(name, Kind::Gauge, help, figure);
    gauge("collie_quorum_needed", "Replicas that have to have a commit.", quorum.needed.into());
    gauge("collie_quorum_connected", "Replicas of the list that are connected.", quorum.connected.into());
    let is = |state: QuorumState| Figure::from(quorum.state == state);
    gauge("collie_quorum_short", "Whether commits wait because too few are.", is(QuorumState::Short));
    gauge("collie_quorum_degraded", "Whether commits do without them.", is(QuorumState::Degraded));
    let changes = quorum.before.is_some().into();
    gauge("collie_quorum_changing", "Whether the list changes: commits wait for two.", changes);
    let time = Duration::from_millis(quorum.state_ms);
    gauge("collie_quorum_state_seconds", "For how long it has stood so.", time.into());
}

/// Adds the state of the connection to the primary.
pub(super) fn following(out: &mut Exposition, row: &FollowingRow) {
    let mut gauge = |name: &str, help: &str, figure: Figure| out.one(name, Kind::Gauge, help, figure);
    let follows = row.state == FollowingState::Following;
    gauge("collie_following", "Whether it takes what its primary sends.", follows.into());
    gauge(
        "collie_following_state_seconds",
        "For how long it has, or has not.",
        Duration::from_millis(row.state_ms).into(),
    );
    if let Some(ms) = row.unheard_ms {
        let time = Duration::from_millis(ms);
        gauge("collie_following_unheard_seconds", "How long ago its primary was last heard.", time.into());
    }
    if let Some(lacked) = row.lacked_bytes() {
        gauge("collie_following_lacked_bytes", "What the primary had on disk then and is not here.", lacked.into());
    }
    if let Some(behind) = row.behind_bytes() {
        gauge("collie_following_behind_bytes", "What the primary had then and readers here do not see.", behind.into());
    }
    if let Some(us) = row.delay_us {
        let time = Duration::from_micros(us);
        gauge(
            "collie_following_delay_seconds",
            "How much later readers here saw commits, by its primary's clock; absent while none are measured.",
            time.into(),
        );
    }
    if let Some(us) = row.oldest_us {
        let help = "For how long readers here have been owed the oldest of what they do not see.";
        gauge("collie_following_oldest_seconds", help, Duration::from_micros(us).into());
    }
}
