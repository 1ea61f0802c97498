//! [`LeadCheck`]: whether a node that leads may take that for granted, or has to ask the other nodes first.
//!
//! A process that was stopped for a while (SIGSTOP, a debugger, a machine without memory) goes on as if no time had passed: its connections
//! look well, and every timer is due at once. Another node may lead by then, and what would say so has not been read yet.
//!
//! ```text
//! fresh -- this process did not run for as long as the gap --> stale -- one round of questions to all peers --> fresh
//! ```
//!
//! # Invariants
//! - L1. A node that is stale answers no commit that its quorum does not have, and does not begin to do without it: it asks first. A
//!   node that hears of a higher term in the answers leads no more.
//! - L2. A node begins to do without its quorum only after a round of questions that began when the commit that is late was waiting
//!   already.
//! - L3. Peers that do not answer within [`ANSWER_TIME`] hold nothing up for longer: a node that hears of no higher term leads.
//!
//! Checked by the tests here, and by the clients' tests of a leader that stood still (`tests/clients/tests/deposed.rs`).

use crate::log_lines;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use collie_env::Env;
use collie_replica::{database::leading, key::KeyFile, packet::TermKind};
use tokio::{runtime::Handle, sync::Mutex, task::block_in_place};

use super::{
    candidate::Node,
    peers::{ANSWER_TIME, Peers},
};

/// For how long a process that does nothing may be only slow, at the least.
const GAP_MIN: Duration = Duration::from_secs(1);

/// When this process was last seen to run, and when others were last asked: moments of its clock, without questions.
#[derive(Debug, Default)]
struct Freshness {
    /// It ran then, and knew of no higher term that it could have heard of.
    fresh_ns: AtomicU64,
    /// The last round of questions began then; 0: there was none.
    asked_ns: AtomicU64,
    gap_ns: u64,
}

impl Freshness {
    fn new(gap: Duration, now_ns: u64) -> Self {
        let gap_ns = u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX);
        Self { fresh_ns: AtomicU64::new(now_ns), asked_ns: AtomicU64::new(0), gap_ns }
    }

    fn is_fresh(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.fresh_ns.load(Ordering::Acquire)) <= self.gap_ns
    }

    /// It runs at `now_ns`. A gap stays one, whichever caller looks at it first.
    fn beat(&self, now_ns: u64) {
        let before = self.fresh_ns.load(Ordering::Acquire);
        if now_ns.saturating_sub(before) <= self.gap_ns {
            // Another thread that moved it meanwhile had as good a reason.
            let _moved =
                self.fresh_ns.compare_exchange(before, now_ns.max(before), Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// A round of questions that began at `begun_ns` is over at `now_ns`. One that took longer than answers are waited for stood still in
    /// between, and says nothing.
    fn asked(&self, begun_ns: u64, now_ns: u64) {
        let most_ns = u64::try_from(2 * ANSWER_TIME.as_nanos()).unwrap_or(u64::MAX).saturating_add(self.gap_ns);
        if now_ns.saturating_sub(begun_ns) <= most_ns {
            self.asked_ns.fetch_max(begun_ns, Ordering::AcqRel);
            self.fresh_ns.fetch_max(now_ns, Ordering::AcqRel);
        }
    }

    /// Returns whether a round began at `since_ns` or later, and is over.
    fn was_asked(&self, since_ns: u64) -> bool {
        let asked_ns = self.asked_ns.load(Ordering::Acquire);
        asked_ns > 0 && asked_ns >= since_ns
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct LeadCheck {
    node: Node,
    peers: Peers,
    /// Its own name.
    name: String,
    /// By which peers know it.
    key: KeyFile,
    env: Env,
    runtime: Handle,
    freshness: Freshness,
    /// Held while peers are asked.
    asking: Mutex<()>,
    /// Whether a round is under way in the background.
    is_asking: AtomicBool,
}

impl LeadCheck {
    /// Of a node that hears [`LeadCheck::beat`] every `heartbeat` where it serves replicas.
    pub(crate) fn new(
        node: Node,
        (name, peers, key): (String, Peers, KeyFile),
        heartbeat: Duration,
        env: Env,
        runtime: Handle,
    ) -> Arc<Self> {
        let freshness = Freshness::new(GAP_MIN.max(heartbeat * 3), env.clock.now_ns());
        let (asking, is_asking) = (Mutex::new(()), AtomicBool::new(false));
        Arc::new(Self { node, peers, name, key, env, runtime, freshness, asking, is_asking })
    }

    /// Returns the node.
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// The process runs. Called with each heartbeat, before anything is made of the time.
    pub(super) fn beat(&self) {
        self.freshness.beat(self.env.clock.now_ns());
    }

    /// Returns whether the node may take for granted what it knows of terms; if not, others are asked in the background.
    pub(super) fn is_fresh(self: &Arc<Self>) -> bool {
        let is_fresh = self.freshness.is_fresh(self.env.clock.now_ns());
        if !is_fresh {
            self.ask_soon();
        }
        is_fresh
    }

    /// Returns whether others were asked since `since_ns` (L2); if not, they are in the background.
    pub(super) fn has_asked_since(self: &Arc<Self>, since_ns: u64) -> bool {
        let has_asked = self.peers.0.is_empty() || self.freshness.was_asked(since_ns);
        if !has_asked {
            self.ask_soon();
        }
        has_asked
    }

    /// Returns whether this node leads still, once others were asked if it has to ask (L1).
    pub(crate) async fn still_leads(&self) -> bool {
        loop {
            if !self.node.leads() {
                return false;
            }
            if self.freshness.is_fresh(self.env.clock.now_ns()) {
                return true;
            }
            let _one = self.asking.lock().await;
            // Another caller may have asked meanwhile.
            if !self.freshness.is_fresh(self.env.clock.now_ns()) {
                self.ask().await;
            }
        }
    }

    fn ask_soon(self: &Arc<Self>) {
        if self.is_asking.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        self.runtime.spawn(async move {
            let one = this.asking.lock().await;
            this.ask().await;
            drop(one);
            this.is_asking.store(false, Ordering::Release);
        });
    }

    /// Says to all others that it leads, and hears of a higher term if there is one.
    async fn ask(&self) {
        let begun_ns = self.env.clock.now_ns();
        if let Some(led) = self.node.led()
            && !self.peers.0.is_empty()
        {
            let terms = &self.node.terms;
            let packet = terms.packet(TermKind::Announce, led, &leading(&self.node.db));
            let answers = self.peers.ask(&self.name, self.node.db.cluster_id(), &self.key, &packet).await;
            let higher = answers.into_iter().filter_map(|(_, answer)| answer.ok()).map(|answer| answer.term).max();
            if let Some(higher) = higher.filter(|higher| *higher > led)
                && let Err(error) = block_in_place(|| terms.promise(higher, 0))
            {
                // It counts in this process all the same (T3 of `terms.rs`).
                log_lines::warn(&format_args!("term {higher} has begun, which cannot be noted: {error}"));
            }
        }
        self.freshness.asked(begun_ns, self.env.clock.now_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Goal: L1 and L2 by the clock alone: a gap is one until others were asked, whichever caller looks first; a round that stood still
    /// itself says nothing; a later delay needs a later round. Method: beats, gaps and rounds at moments of the test's own.
    #[test]
    fn a_gap_is_one_until_others_were_asked() {
        let freshness = Freshness::new(Duration::from_secs(1), 10 * S);
        assert!(freshness.is_fresh(11 * S) && !freshness.is_fresh(11 * S + 1));
        freshness.beat(11 * S);
        assert!(freshness.is_fresh(12 * S));
        freshness.beat(40 * S);
        freshness.beat(40 * S + 1);
        assert!(!freshness.is_fresh(40 * S + 2), "it goes on, and knows no more than before");
        assert!(!freshness.was_asked(0));
        freshness.asked(40 * S, 99 * S);
        assert!(!freshness.is_fresh(99 * S) && !freshness.was_asked(40 * S), "it stood still in the middle of a round");
        freshness.asked(99 * S, 100 * S);
        assert!(freshness.is_fresh(101 * S) && freshness.was_asked(99 * S) && !freshness.was_asked(99 * S + 1));
        freshness.beat(101 * S);
        assert!(freshness.is_fresh(102 * S));
    }
}
