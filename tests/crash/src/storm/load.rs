//! `Load`: clients that run the bank's transactions during a storm, and count their answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context, anyhow};
use postgres::{Config, NoTls};

use crate::{
    bank,
    journal::{Journal, Outcome},
    random::Random,
};

/// See the module's documentation.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    /// The number of commits of each client.
    commits: Vec<Arc<AtomicU64>>,
    /// The largest number of connections of waves between two answers of one client.
    longest: Arc<AtomicU64>,
    threads: Vec<JoinHandle<anyhow::Result<Journal>>>,
}

impl Load {
    /// Starts the load with `clients` clients. `made` counts the connections of waves.
    pub(super) fn start(clients: u64, config: &Config, made: &Arc<AtomicU64>, random: &mut Random) -> Self {
        let (stop, longest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let commits: Vec<Arc<AtomicU64>> = (0..clients).map(|_| Arc::default()).collect();
        let threads = (0..clients)
            .zip(&commits)
            .map(|(id, commits)| {
                let (stop, commits, config) = (Arc::clone(&stop), Arc::clone(commits), config.clone());
                let (longest, made) = (Arc::clone(&longest), Arc::clone(made));
                let mut random = Random::new(random.next());
                thread::spawn(move || {
                    let mut journal = Journal::new(id, true);
                    let mut client = config.connect(NoTls).context("a client of the load cannot connect")?;
                    let mut last = made.load(Ordering::Relaxed);
                    while !stop.load(Ordering::Relaxed) {
                        let seq = journal.intend();
                        bank::transaction(&mut client, id, seq, false, &mut random)
                            .with_context(|| format!("transaction {seq} of the load's client {id}"))?;
                        journal.settle(Outcome::Acknowledged);
                        commits.fetch_add(1, Ordering::Relaxed);
                        let now = made.load(Ordering::Relaxed);
                        longest.fetch_max(now - last, Ordering::Relaxed);
                        last = now;
                    }
                    Ok(journal)
                })
            })
            .collect();
        Self { stop, commits, longest, threads }
    }

    /// Returns the number of acknowledged commits of each client.
    pub(super) fn commits(&self) -> Vec<u64> {
        self.commits.iter().map(|commits| commits.load(Ordering::Relaxed)).collect()
    }

    /// Returns the largest number of connections of waves between two answers of one client.
    pub(super) fn longest_stretch(&self) -> u64 {
        self.longest.load(Ordering::Relaxed)
    }

    /// Returns whether no client has given up.
    pub(super) fn goes_on(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }

    /// Stops the load; returns its clients' journals.
    ///
    /// # Errors
    /// A client's request was refused.
    pub(super) fn stop(self) -> anyhow::Result<Vec<Journal>> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a client panicked"))?).collect()
    }
}
