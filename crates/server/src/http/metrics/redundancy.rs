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
    let help = "Mean replication delay of the replica's readers in the last second; absent without a measurement.";
    each("collie_replica_delay_seconds", help, &|row| row.delay.map(|delay| micros(delay.mean_us).into()));
    each("collie_replica_oldest_seconds", "Age of the oldest commit that the replica's readers do not see.", &|row| {
        Some(micros(row.oldest_us).into())
    });
    each("collie_replica_behind_bytes", "Bytes of log that the replica's readers do not see.", &|row| {
        Some(durable.bytes_since(row.applied.min(durable)).into())
    });
    each("collie_replica_queue_bytes", "Bytes that the replica has received and not applied.", &|row| {
        Some(row.queue_bytes.into())
    });
    each("collie_replica_round_trip_seconds", "Shortest round trip to the replica.", &|row| {
        row.rtt_us.map(|us| micros(us).into())
    });
    each("collie_replica_sent_lsn", "End of the log sent to the replica.", &|row| Some(row.sent.get().into()));
    each("collie_replica_received_lsn", "End of the log received by the replica.", &|row| {
        Some(row.received.get().into())
    });
    each("collie_replica_durable_lsn", "End of the log on the replica's disk.", &|row| Some(row.durable.get().into()));
    each("collie_replica_applied_lsn", "Position that the replica's readers see.", &|row| {
        Some(row.applied.get().into())
    });
    let quantiles = |delay: DelayFigures| [("0.5", delay.p50_us), ("0.99", delay.p99_us), ("1", delay.max_us)];
    let samples = replicas.iter().flat_map(|row| {
        let quantiles = row.delay_recent.into_iter().flat_map(quantiles);
        quantiles.map(move |(quantile, us)| ([("slot", &*row.slot), ("quantile", quantile)], micros(us).into()))
    });
    let help = "Percentiles of the replica's delay in the last one to two minutes; absent without a measurement.";
    out.each("collie_replica_recent_delay_seconds", Kind::Gauge, help, samples);
}

/// Adds the log that is kept for each replica, and its limits.
pub(super) fn slots(out: &mut Exposition, slots: &[SlotRow]) {
    let mut each = |name: &str, help: &str, figure: &dyn Fn(&SlotRow) -> Option<Figure>| {
        by_slot(out, (name, help), slots, |row| &row.slot, figure);
    };
    each("collie_slot_kept_bytes", "Bytes of log files kept for the slot.", &|row| Some(row.kept_bytes.into()));
    each("collie_slot_limit_bytes", "Limit of the bytes kept for the slot (replication.slot_bytes).", &|row| {
        Some(row.bytes_max.into())
    });
    each("collie_slot_unheard_seconds", "Time since the slot's replica was last connected.", &|row| {
        Some(Duration::from_millis(u64::try_from(row.unheard_ms).unwrap_or(0)).into())
    });
    each("collie_slot_expired", "Whether the slot has expired and keeps no log.", &|row| {
        Some(row.expired_by.is_some().into())
    });
}

/// Adds the state of the quorum that commits wait for.
pub(super) fn quorum(out: &mut Exposition, quorum: &QuorumRow) {
    let mut gauge = |name: &str, help: &str, figure: Figure| out.one(name, Kind::Gauge, help, figure);
    gauge("collie_quorum_needed", "Number of replicas that must have a commit.", quorum.needed.into());
    gauge("collie_quorum_connected", "Connected replicas of the quorum's list.", quorum.connected.into());
    let is = |state: QuorumState| Figure::from(quorum.state == state);
    gauge(
        "collie_quorum_short",
        "Whether commits wait because too few replicas are connected.",
        is(QuorumState::Short),
    );
    gauge(
        "collie_quorum_degraded",
        "Whether commits are acknowledged without the quorum (replication.degrade).",
        is(QuorumState::Degraded),
    );
    let changes = quorum.before.is_some().into();
    gauge(
        "collie_quorum_changing",
        "Whether the quorum's list is changing, so that commits wait for the old and the new one.",
        changes,
    );
    let time = Duration::from_millis(quorum.state_ms);
    gauge("collie_quorum_state_seconds", "Time in the current state of the quorum.", time.into());
}

/// Adds the state of the connection to the primary.
pub(super) fn following(out: &mut Exposition, row: &FollowingRow) {
    let mut gauge = |name: &str, help: &str, figure: Figure| out.one(name, Kind::Gauge, help, figure);
    let follows = row.state == FollowingState::Following;
    gauge("collie_following", "Whether this replica receives log from its primary.", follows.into());
    gauge(
        "collie_following_state_seconds",
        "Time in the current state of following.",
        Duration::from_millis(row.state_ms).into(),
    );
    if let Some(ms) = row.unheard_ms {
        let time = Duration::from_millis(ms);
        gauge("collie_following_unheard_seconds", "Time since the last packet from the primary.", time.into());
    }
    if let Some(lacked) = row.lacked_bytes() {
        gauge(
            "collie_following_lacked_bytes",
            "Bytes of the primary's durable log that this replica lacked at the last packet.",
            lacked.into(),
        );
    }
    if let Some(behind) = row.behind_bytes() {
        gauge(
            "collie_following_behind_bytes",
            "Bytes of the primary's log at the last packet that readers of this replica do not see.",
            behind.into(),
        );
    }
    if let Some(us) = row.delay_us {
        let time = Duration::from_micros(us);
        gauge(
            "collie_following_delay_seconds",
            "Replication delay of this replica's readers, by the primary's clock; absent without a measurement.",
            time.into(),
        );
    }
    if let Some(us) = row.oldest_us {
        let help = "Age of the oldest commit that this replica's readers do not see.";
        gauge("collie_following_oldest_seconds", help, Duration::from_micros(us).into());
    }
}
