//! `Shown`: the data of views and functions about a primary's slots.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use collie_base::{EPOCH_2000_US, Lsn};
use collie_env::Env;
use collie_replica::{
    database::EngineSource,
    packet::DelayWindow,
    primary::{DropError, HeldSlot, QuorumStat, SlotStat, Slots, Source as _},
    reads::ReadsSent,
};
use collie_sql::{
    catalog::system::{DelayFigures, DelayRow, QuorumRow, ReadsShipped, SlotRow, Standby},
    error::{Result, SqlError, SqlState},
    session::{Replication, no_slot},
};

use super::{quorum_watch::QuorumWatch, redundancy::Redundancy};

/// The limits of a slot.
#[derive(Clone, Copy)]
pub(super) struct SlotLimits {
    pub(super) bytes: u64,
    pub(super) age: Option<Duration>,
}

/// The slots of a primary, for sessions.
pub(super) struct Shown {
    pub(super) slots: Arc<Slots>,
    pub(super) source: Arc<EngineSource>,
    pub(super) redundancy: Arc<Redundancy>,
    pub(super) limits: SlotLimits,
    pub(super) env: Env,
    pub(super) quorum: Arc<QuorumWatch>,
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn us_of(ns: u64) -> i64 {
    int(ns / 1000)
}

fn figures(window: DelayWindow) -> DelayFigures {
    let DelayWindow { commits, mean_ns, p50_ns, p99_ns, max_ns } = window;
    let [mean_us, p50_us, p99_us, max_us] = [mean_ns, p50_ns, p99_ns, max_ns].map(us_of);
    DelayFigures { commits: int(commits), mean_us, p50_us, p99_us, max_us }
}

impl Shown {
    fn stat(&self) -> Vec<SlotStat> {
        self.slots.stat(self.source.durable(), self.env.clock.now_ns())
    }
}

impl Replication for Shown {
    fn standbys(&self) -> Vec<Standby> {
        let QuorumStat { asked, degraded, .. } = self.redundancy.stat();
        let sync_state = |slot: &String| match asked.has(slot) {
            false => "async",
            true if degraded => "degraded",
            true => "quorum",
        };
        let standby = |stat: SlotStat| Standby {
            is_connected: stat.is_connected,
            sync_state: sync_state(&stat.name),
            slot: stat.name,
            node: stat.node,
            address: stat.address,
            state: stat.state.word(),
            sent: stat.positions.sent,
            received: stat.positions.received,
            durable: stat.positions.durable,
            applied: stat.positions.applied,
            delay: stat.delay.map(figures),
            delay_recent: stat.summary.map(figures),
            measured_commits: int(stat.totals.commits),
            measured_us: us_of(stat.totals.sum_ns),
            oldest_us: us_of(stat.owed_ns),
            drain_us: stat.drain_ns.map(us_of),
            write_lag_us: stat.lags.write_ns.map(us_of),
            flush_lag_us: stat.lags.flush_ns.map(us_of),
            replay_lag_us: stat.lags.replay_ns.map(us_of),
            rtt_us: (stat.rtt_min_ns < u64::MAX).then(|| int(stat.rtt_min_ns / 1000)),
            queue_bytes: i64::from(stat.queue_bytes),
            verified: Some(stat.verified).filter(|verified| *verified > Lsn::ZERO),
            log_verified: Some(stat.log_verified).filter(|verified| *verified > Lsn::ZERO),
        };
        self.stat().into_iter().map(standby).collect()
    }

    fn slots(&self) -> Vec<SlotRow> {
        let held: BTreeMap<String, HeldSlot> =
            self.source.held().into_iter().map(|held| (held.name.clone(), held)).collect();
        let row = |stat: SlotStat| {
            let held = held.get(&stat.name).filter(|held| held.lost.is_none());
            SlotRow {
                state: stat.state.word(),
                is_connected: stat.is_connected,
                node: Some(stat.node).filter(|node| *node != 0),
                restart: held.map(|held| held.restart),
                durable: stat.positions.durable,
                kept_bytes: held.map_or(0, |held| int(held.kept_bytes)),
                bytes_max: int(self.limits.bytes),
                unheard_ms: int(stat.unheard_ns / 1_000_000),
                age_max_ms: self.limits.age.map(|age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX)),
                last_seen_us: Some(stat.heard_wall_us).filter(|us| *us != 0).map(|us| us - EPOCH_2000_US),
                expired_by: stat.expired.map(|why| why.word()),
                problem: stat.problem,
                slot: stat.name,
            }
        };
        self.stat().into_iter().map(row).collect()
    }

    fn delays(&self) -> Vec<DelayRow> {
        let (now_ns, now_us) = (self.env.clock.now_ns(), self.env.clock.wall_us() - EPOCH_2000_US);
        let mut rows = Vec::new();
        for (slot, seconds) in self.slots.seconds() {
            rows.extend(seconds.into_iter().map(|second| DelayRow {
                slot: slot.clone(),
                at_us: now_us - int(now_ns.saturating_sub(second.at_ns) / 1000),
                state: second.state.word(),
                delay: second.window.map(figures),
                oldest_us: us_of(second.owed_ns),
                durable: second.durable,
                applied: second.applied,
            }));
        }
        rows
    }

    fn quorum(&self) -> Option<QuorumRow> {
        self.quorum.look(&self.redundancy.stat(), &self.stat(), self.redundancy.witness(), self.env.clock.now_ns())
    }

    fn quorum_list(&self) -> String {
        self.redundancy.list()
    }

    fn set_quorum(&self, list: &str) -> Result<()> {
        self.redundancy.change(list)
    }

    fn reads(&self) -> Option<ReadsShipped> {
        let reads = self.source.reads().filter(|_| !self.source.database().is_replica())?;
        let ReadsSent { shipped, late, full } = reads.stat();
        Some(ReadsShipped { shipped, late, full })
    }

    fn drop_slot(&self, name: &str) -> Result<()> {
        self.slots.drop_slot(name, &*self.source).map_err(|error| match error {
            DropError::Unknown => no_slot(name),
            DropError::InUse => {
                let text = format!("replication slot \"{name}\" is active: its replica is connected");
                SqlError::new(SqlState::OBJECT_IN_USE, text).hint("Stop the replica first.")
            }
            error => {
                SqlError::new(SqlState::IO_ERROR, format!("replication slot \"{name}\" cannot be dropped: {error}"))
            }
        })
    }
}
