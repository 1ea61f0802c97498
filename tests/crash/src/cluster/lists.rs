//! [`Lists`]: clients that run transactions on lists (`appends`) on a cluster whose nodes fail, and the single history
//! of their answers.
//!
//! A writer stays on the node that leads, or that says so, until the connection breaks. A reader has one connection in
//! each round, to a node that knows the leader: a node that was just opened shows its whole log, without knowing how
//! much of it other nodes have.
//!
//! A state that was read survives only if no client is answered before a quorum has its commit; a cluster with other
//! writers has none of these clients. No order in time between connections is checked: a leader that is cut off answers
//! with an old state until it learns of another leader.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context, anyhow};
use collie_env::Clock;

use crate::{
    appends::{
        MIXED,
        checker::{self, Facts, Order, Rules},
        client::{self, Client},
        history::{History, Transaction},
    },
    failover::load::{Habits, LOOK_EVERY, connect, connect_to_leader},
    random::Random,
    trio::COUNT,
};

/// The number of writers in each round.
const WRITERS: usize = 4;

/// The state that the clients of a round share.
#[derive(Debug)]
struct Shared {
    lists: client::Shared,
    places: [Option<SocketAddr>; COUNT],
    habits: Habits,
    /// The number of the last connection.
    sessions: AtomicU64,
    stop: Arc<AtomicBool>,
}

type Played = anyhow::Result<Vec<Transaction>>;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Lists {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<Played>>,
    history: History,
}

impl Lists {
    /// Creates the clients' state for a cluster with nodes at `places`.
    pub(super) fn new(places: [Option<SocketAddr>; COUNT], habits: Habits, clock: Arc<dyn Clock>) -> Self {
        let lists = client::Shared::new(u64::MAX, clock);
        let shared = Shared { lists, places, habits, sessions: AtomicU64::new(0), stop: Arc::default() };
        Self { shared: Arc::new(shared), clients: Vec::new(), history: History::default() }
    }

    /// Starts a round's clients.
    pub(super) fn start(&mut self, random: &mut Random) {
        self.shared.stop.store(false, Ordering::SeqCst);
        for number in 0..WRITERS + COUNT {
            let (shared, random) = (self.shared.clone(), Random::new(random.next()));
            let work = move || match number.checked_sub(WRITERS) {
                None => write(&shared, random),
                Some(node) => read(&shared, node, random),
            };
            self.clients.push(thread::spawn(work));
        }
    }

    /// Lets no further transaction begin.
    pub(super) fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
    }

    /// Returns whether all clients have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.clients.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the round's clients, and checks the whole history so far, with the final lists read on the leader.
    ///
    /// # Errors
    /// An answer that a node must never give; a history that the levels do not allow.
    pub(super) fn check(&mut self, leader: &mut postgres::Client) -> anyhow::Result<Facts> {
        for client in self.clients.drain(..) {
            self.history.transactions.extend(client.join().map_err(|_| anyhow!("a client panicked"))??);
        }
        let session = self.shared.sessions.fetch_add(1, Ordering::SeqCst) + 1;
        let all = client::read_all(leader, session, &self.shared.lists).context("cannot read all lists")?;
        self.history.end = all.reads().collect();
        self.history.transactions.push(all);
        Ok(checker::check(&self.history, Rules { order: Order::Session, as_level: None })?)
    }
}

impl Shared {
    /// Connects to a node; returns `None` if it does not answer, or if `leads` is set and the node follows.
    fn connect(&self, node: usize, leads: bool, random: &mut Random) -> Option<Client> {
        let number = self.sessions.fetch_add(1, Ordering::SeqCst) + 1;
        let (connection, mut unconfirmed) = if leads { connect_to_leader } else { connect }(self.places[node]?)?;
        if self.habits.alone_is_kept {
            unconfirmed = Arc::default(); // no warning makes an outcome unknown
        }
        let random = Random::new(random.next());
        let client = if leads {
            Client::new(connection, number, random, MIXED, &self.lists)
        } else {
            Client::reading(connection, number, random, &self.lists, number, &self.stop)
        };
        Some(client.ok()?.on_failing_node(unconfirmed))
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Runs transactions over one connection.
    fn play(&self, mut client: Client, random: &mut Random, played: &mut Vec<Transaction>) -> anyhow::Result<()> {
        while !self.is_over() && client.step(played)? {
            self.habits.pause(&self.stop, random);
        }
        Ok(())
    }
}

fn write(shared: &Shared, mut random: Random) -> Played {
    let mut played = Vec::new();
    let mut node = usize::try_from(random.below(COUNT as u64))?;
    while !shared.is_over() {
        match shared.connect(node, true, &mut random) {
            Some(client) => shared.play(client, &mut random, &mut played)?,
            None => thread::sleep(LOOK_EVERY),
        }
        node = (node + 1) % COUNT;
    }
    Ok(played)
}

fn read(shared: &Shared, node: usize, mut random: Random) -> Played {
    let mut played = Vec::new();
    if let Some(client) = shared.connect(node, false, &mut random) {
        shared.play(client, &mut random, &mut played)?;
    }
    Ok(played)
}
