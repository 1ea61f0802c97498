//! [`LeadCheck`]: whether a node that leads may rely on its knowledge of terms, or has to ask the other nodes first.
//!
//! A process that was stopped for a while (SIGSTOP, a debugger, a machine without memory) continues as if no time had
//! passed: its connections look intact, and every timer is due at once. Another node may lead by then, and the message
//! that says so has not been read yet.
//!
//! ```text
//! fresh -- this process did not run for as long as the gap --> stale -- one round of questions to all peers --> fresh
//! ```
//!
//! # Invariants
//! - L1. A stale node does not answer a commit that its quorum does not have, and does not begin to degrade: it asks
//!   first. A node that learns of a higher term from the answers leads no more.
//! - L2. A node degrades only after a round of questions that began when the late commit was already waiting.
//! - L3. Peers that do not answer within [`ANSWER_TIME`] delay nothing for longer: a node that learns of no higher term
//!   leads.
//!
//! Checked by the tests here, and by the clients' tests of a stopped leader (`tests/clients/tests/deposed.rs`).

use crate::config::Peers;
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

use super::{candidate::Node, peers::ANSWER_TIME};

/// A process that does nothing for up to this time may be merely slow; a lower bound of the gap.
const GAP_MIN: Duration = Duration::from_secs(1);

/// When this process was last seen to run, and when peers were last asked, as times of its clock; pure state, without
/// I/O.
#[derive(Debug, Default)]
struct Freshness {
    /// The process ran at this time, and knew every higher term that it could have learned of.
    fresh_ns: AtomicU64,
    /// The last round of questions began at this time; 0: there was none.
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

    /// Records that the process runs at `now_ns`. A gap remains a gap, whichever caller sees it first.
    fn beat(&self, now_ns: u64) {
        let before = self.fresh_ns.load(Ordering::Acquire);
        if now_ns.saturating_sub(before) <= self.gap_ns {
            // Another thread that moved it in between had the same justification.
            let _moved =
                self.fresh_ns.compare_exchange(before, now_ns.max(before), Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Records that a round of questions that began at `begun_ns` has ended at `now_ns`. If it took longer than the
    /// wait for answers, the process was stopped in between, and the round proves nothing.
    fn asked(&self, begun_ns: u64, now_ns: u64) {
        let most_ns = u64::try_from(2 * ANSWER_TIME.as_nanos()).unwrap_or(u64::MAX).saturating_add(self.gap_ns);
        if now_ns.saturating_sub(begun_ns) <= most_ns {
            self.asked_ns.fetch_max(begun_ns, Ordering::AcqRel);
            self.fresh_ns.fetch_max(now_ns, Ordering::AcqRel);
        }
    }

    /// Returns whether a completed round began at `since_ns` or later.
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
    /// The key by which peers recognize it.
    key: KeyFile,
    env: Env,
    runtime: Handle,
    freshness: Freshness,
    /// Held while peers are asked.
    asking: Mutex<()>,
    /// Whether a round runs in the background.
    is_asking: AtomicBool,
}

impl LeadCheck {
    /// Makes the check of a node that calls [`LeadCheck::beat`] every `heartbeat` if it serves replicas.
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

    /// Records that the process runs. Called with each heartbeat, before any decision that depends on the time.
    pub(super) fn beat(&self) {
        self.freshness.beat(self.env.clock.now_ns());
    }

    /// Returns whether the node may rely on its knowledge of terms; if not, peers are asked in the background.
    pub(super) fn is_fresh(self: &Arc<Self>) -> bool {
        let is_fresh = self.freshness.is_fresh(self.env.clock.now_ns());
        if !is_fresh {
            self.ask_soon();
        }
        is_fresh
    }

    /// Returns whether peers were asked since `since_ns` (L2); if not, they are asked in the background.
    pub(super) fn has_asked_since(self: &Arc<Self>, since_ns: u64) -> bool {
        let has_asked = self.peers.0.is_empty() || self.freshness.was_asked(since_ns);
        if !has_asked {
            self.ask_soon();
        }
        has_asked
    }

    /// Returns whether this node still leads, after asking its peers if it has to (L1).
    pub(crate) async fn still_leads(&self) -> bool {
        loop {
            if !self.node.leads() {
                return false;
            }
            if self.freshness.is_fresh(self.env.clock.now_ns()) {
                return true;
            }
            let _one = self.asking.lock().await;
            // Another caller may have asked in between.
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

    /// Announces to all peers that this node leads, and notes a higher term from their answers.
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
                // The term counts in this process all the same (T3 of `terms.rs`).
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

    /// Goal: L1 and L2, by the clock alone: a gap remains until peers were asked, whichever caller sees it first; a
    /// round during which the process was stopped proves nothing; a later delay needs a later round. Method: beats,
    /// gaps and rounds at chosen times.
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
