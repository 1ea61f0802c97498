//! A round with failovers: three nodes; at the end of each run the leader is killed and another node is promoted. Both
//! replicas are read all the time, also between the kill and the promotion.
//!
//! Every commit must be on the disks of two of the three nodes, so nothing that a client was answered may be lost,
//! neither commits of the leader's clients nor reads on replicas, which see what a quorum has on disk. It all forms one
//! history: a new leader continues the old one's.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::Context;
use collie_env::{Clock, RealClock};

use super::{
    Mix, Plan,
    client::{self, Client, Shared},
    history::{History, Transaction},
    live,
    standby::SESSIONS,
};
use crate::{
    failover::nodes::{Nodes, Words},
    journal::Outcome,
    random::Random,
    trio::{COUNT, Trio as _},
};

/// The number of connections to each replica.
const READERS: u64 = 2;

/// How long replicas are read without a primary.
const ORPHANED: Duration = Duration::from_millis(200);

/// The readers of replicas, during one run of a leader.
struct Readers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<anyhow::Result<Vec<Transaction>>>>,
}

impl Readers {
    /// Starts readers on every node but `leader`. Each node has its own number in each run, under which its reads never
    /// go back.
    fn start(nodes: &Nodes, leader: usize, life: u64, shared: &Shared, random: &mut Random) -> anyhow::Result<Self> {
        let mut readers = Self { stop: Arc::default(), threads: Vec::new() };
        for node in (0..COUNT).filter(|node| *node != leader) {
            for number in 0..READERS {
                let place = life * COUNT as u64 + node as u64;
                let (session, random) = (SESSIONS + place * READERS + number, Random::new(random.next()));
                let client = Client::reading(nodes.connect(node)?, session, random, shared, place, &readers.stop)?;
                readers.threads.push(thread::spawn(move || client.run()));
            }
        }
        Ok(readers)
    }

    fn end(self) -> anyhow::Result<Vec<Transaction>> {
        self.stop.store(true, Ordering::SeqCst);
        let mut read = Vec::new();
        for thread in self.threads {
            read.extend(thread.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??);
        }
        Ok(read)
    }
}

/// Plays one round, on new databases below `dir`; returns the number of kills.
pub(super) fn play(plan: &Plan, mix: Mix, seed: u64, dir: &Path, history: &mut History) -> anyhow::Result<u64> {
    let rings = tempfile::Builder::new().prefix("collie-appends-").tempdir_in("/dev/shm")?;
    let mut random = Random::new(seed);
    let settings = ["replication.quorum=ANY 2 (a, b, c)", "replication.timeout=1 s"].map(str::to_owned).to_vec();
    let planted = plan.plant.iter().flat_map(|mistake| ["planted".to_owned(), mistake.clone()]);
    let words = Words { binary: plan.server.clone(), arguments: planted.collect(), settings, has_witness: false };
    let mut nodes = Nodes::new(words, dir, rings.path(), random.next())?;
    (0..COUNT).try_for_each(|node| nodes.start(node, &[]))?;
    client::create(&mut nodes.connect(0)?).context("cannot make the tables")?;
    let mut leader = nodes.settle()?;
    let shared = Shared::new(plan.transactions, Arc::new(RealClock));
    for life in 0..=plan.failovers {
        let share = plan.transactions / (plan.failovers + 1);
        let target = if life == plan.failovers { u64::MAX } else { share * life + share / 2 + random.below(share) };
        let readers = Readers::start(&nodes, leader, life, &shared, &mut random)?;
        let server = nodes.take(leader).context("it runs")?;
        let lived = live(plan, mix, server, life, target, &shared, &mut random);
        thread::sleep(ORPHANED);
        let read = readers.end();
        let mut lived = lived?;
        lived.extend(read?);
        let first = usize::try_from(random.below(COUNT as u64))?;
        let promoted = (0..COUNT).map(|next| (first + next) % COUNT).find_map(|node| nodes.promote(node).ok());
        promoted.with_context(|| format!("life {life}: no node can be promoted"))?;
        // A commit that has not come through by now never will: the old leader sets aside the log that only it has.
        let promoted_ns = RealClock.now_ns();
        let lost =
            |transaction: &&mut Transaction| transaction.outcome == Outcome::Unknown && transaction.replica.is_none();
        lived.iter_mut().filter(lost).for_each(|transaction| transaction.ended_ns = promoted_ns);
        leader = nodes.settle().with_context(|| format!("life {life}"))?;
        history.transactions.append(&mut lived);
        let all = client::read_all(&mut nodes.connect(leader)?, life * (plan.clients + 1), &shared)?;
        history.end = all.reads().collect();
        history.transactions.push(all);
    }
    Ok(plan.failovers + 1)
}
