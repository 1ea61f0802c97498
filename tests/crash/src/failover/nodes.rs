//! `Nodes`: three servers that know each other, or two and a witness, and the network between each two of them.
//!
//! A node is always started with the same arguments, whatever role it had. Each ordered pair of nodes has a proxy for
//! connections from the first to the second, so that a node can be cut off in one or both directions; clients connect
//! directly.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use collie_env::{Clock, Env, RealClock};
use collie_netlab::{Direction, Port, Proxy, plant_key};
use postgres::{Client, NoTls};

use crate::{
    server::Server,
    trio::{COUNT, NAMES, NotYet, Trio, WITNESSED},
};

/// The limit of every wait for something that must come, on a machine that is busy with something else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The pause between two checks of a condition.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// The name of the file with the replication key.
const KEY: &str = "replication.key";

/// The program and the arguments of the servers.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) binary: PathBuf,
    /// Arguments that precede the server's own.
    pub(crate) arguments: Vec<String>,
    /// The settings of all servers.
    pub(crate) settings: Vec<String>,
    /// Whether the last machine has a witness in place of a server.
    pub(crate) has_witness: bool,
}

/// See the module's documentation.
pub(crate) struct Nodes {
    words: Words,
    dir: PathBuf,
    rings: PathBuf,
    /// The port where each node listens for replicas, in all its processes.
    listening: Vec<Port>,
    /// Indexed by the node that connects, then by the node that it connects to.
    proxies: Vec<Vec<Option<Proxy>>>,
    servers: Vec<Option<Server>>,
    frozen: [bool; COUNT],
    /// The number of processes that ended without being killed from here.
    pub(crate) died: u64,
}

impl Nodes {
    /// Makes `COUNT` nodes below `dir`, none of them started.
    pub(crate) fn new(words: Words, dir: &Path, rings: &Path, seed: u64) -> anyhow::Result<Self> {
        let listening = (0..COUNT).map(|_| Port::keep()).collect::<Result<Vec<_>, _>>()?;
        let mut proxies = Vec::new();
        for from in 0..COUNT {
            let mut row = Vec::new();
            for (to, port) in listening.iter().enumerate() {
                row.push(if from == to { None } else { Some(Proxy::start(port.address(), seed)?) });
            }
            proxies.push(row);
        }
        plant_key(&dir.join(KEY)).context("the nodes' key")?;
        let servers = (0..COUNT).map(|_| None).collect();
        let (dir, rings) = (dir.to_owned(), rings.to_owned());
        Ok(Self { words, dir, rings, listening, proxies, servers, frozen: [false; COUNT], died: 0 })
    }

    fn log(&self, node: usize) -> PathBuf {
        self.dir.join(format!("{}.log", NAMES[node]))
    }

    fn settings(&self, node: usize) -> Vec<String> {
        let address = |other: usize| self.proxies[node][other].as_ref().map(Proxy::address);
        let peers: Vec<String> = (0..self.count())
            .filter_map(|other| address(other).map(|address| format!("{}={address}", NAMES[other])))
            .collect();
        let mut settings = vec![
            format!("wal.ring_dir={}", self.rings.display()),
            format!("replication.key_file={}", self.dir.join(KEY).display()),
            format!("server.replica_listen={}", self.listening[node].address()),
            format!("replication.slot={}", NAMES[node]),
            format!("replication.peers={}", peers.join(",")),
        ];
        // The first node creates the database; the others get the address from which they are filled.
        settings.extend(address(0).map(|first| format!("server.replica_of={first}")));
        let witness = address(WITNESSED).filter(|_| self.words.has_witness);
        settings.extend(witness.map(|witness| format!("replication.witness={witness}")));
        settings.extend(self.words.settings.iter().cloned());
        settings
    }

    /// Starts a node and waits until it listens.
    ///
    /// # Errors
    /// It ended before.
    pub(crate) fn start(&mut self, node: usize, environment: &[(&str, String)]) -> anyhow::Result<()> {
        let Words { binary, arguments, .. } = &self.words;
        let (data, log) = (self.data(node), self.log(node));
        let server = if node < self.count() {
            Server::start_in(binary, arguments, &data, &self.settings(node), &log, environment)
        } else {
            let listen = self.listening[node].address();
            Server::start_witness(binary, arguments, (&data, &self.dir.join(KEY)), listen, &log)
        };
        self.servers[node] = Some(server.with_context(|| format!("node {}", NAMES[node]))?);
        self.frozen[node] = false;
        Ok(())
    }

    /// Starts the nodes that do not run, and retries, since one may have to wait for another.
    ///
    /// # Errors
    /// A node does not come to listen in time.
    pub(crate) fn start_dead(&mut self) -> anyhow::Result<()> {
        let start_ns = RealClock.now_ns();
        while let Some(node) = (0..COUNT).find(|node| !self.runs(*node)) {
            self.died += u64::from(self.servers[node].take().is_some());
            match self.start(node, &[]) {
                Ok(()) => {}
                Err(error) if is_over(start_ns) => return Err(error),
                Err(_) => thread::sleep(TICK),
            }
        }
        Ok(())
    }

    /// Returns whether a node's process exists, running or frozen.
    pub(crate) fn runs(&mut self, node: usize) -> bool {
        self.servers[node].as_mut().is_some_and(|server| !server.has_ended())
    }

    /// Returns the clients' address of each server.
    pub(crate) fn places(&self) -> [Option<SocketAddr>; COUNT] {
        let place = |server: &Server| SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
        std::array::from_fn(|node| self.servers[node].as_ref().filter(|_| node < self.count()).map(place))
    }

    /// Gives a node's process to the caller; from then on the node counts as dead.
    pub(crate) fn take(&mut self, node: usize) -> Option<Server> {
        self.servers[node].take()
    }

    /// Kills a node (SIGKILL) if it runs.
    pub(crate) fn kill(&mut self, node: usize) -> anyhow::Result<()> {
        self.servers[node].take().map_or(Ok(()), Server::kill)
    }

    /// Freezes a node (SIGSTOP) if it runs.
    pub(crate) fn freeze(&mut self, node: usize) -> anyhow::Result<()> {
        if self.runs(node) {
            self.servers[node].as_ref().map_or(Ok(()), Server::pause)?;
            self.frozen[node] = true;
        }
        Ok(())
    }

    /// Cuts a node's outgoing traffic to the others, its incoming traffic, or both.
    pub(crate) fn cut(&self, node: usize, sends: bool, receives: bool) {
        for other in (0..COUNT).filter(|other| *other != node) {
            let from = [(node, other, sends, receives), (other, node, receives, sends)];
            for (asks, asked, out, back) in from {
                let Some(proxy) = &self.proxies[asks][asked] else { continue };
                let ways = [(out, Direction::Out), (back, Direction::Back)];
                ways.into_iter().filter(|(is_cut, _)| *is_cut).for_each(|(_, way)| proxy.cut(way));
            }
        }
    }

    /// Cuts two nodes off from each other.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn part(&self, one: usize, other: usize) {
        let both = [&self.proxies[one][other], &self.proxies[other][one]];
        both.into_iter().flatten().for_each(Proxy::cut_both);
    }

    /// Repairs the network, and resumes frozen nodes.
    pub(crate) fn heal(&mut self) -> anyhow::Result<()> {
        self.proxies.iter().flatten().flatten().for_each(Proxy::heal);
        for node in 0..COUNT {
            if std::mem::take(&mut self.frozen[node]) && self.runs(node) {
                self.servers[node].as_ref().map_or(Ok(()), Server::go_on)?;
            }
        }
        Ok(())
    }

    /// Waits until exactly one node leads and all have equal rows at one position; promotes a node if none leads. All
    /// nodes are started, and nothing is written meanwhile. Returns the leader.
    ///
    /// # Errors
    /// The nodes do not come to that in time; two nodes differ at one position.
    pub(crate) fn settle(&mut self) -> anyhow::Result<usize> {
        let start_ns = RealClock.now_ns();
        let (mut leaderless, mut last) = (0, String::new());
        loop {
            self.start_dead()?;
            let leading = self.leading();
            match leading[..] {
                [leader] => match self.states(leader) {
                    Ok(()) => return Ok(leader),
                    Err(NotYet::Wrong(error)) => return Err(error),
                    Err(NotYet::Unequal(why)) => last = why,
                },
                [] => {
                    leaderless += 1;
                    // A leader may be restarting, so nodes get some time before a promotion.
                    if leaderless % 25 == 0 {
                        let promoted = self.promote(leaderless / 25 % self.count());
                        last = promoted.map_or_else(|why| why, |node| format!("{} was promoted", NAMES[node]));
                    }
                }
                _ => last = format!("{leading:?} lead"),
            }
            if is_over(start_ns) {
                bail!("the nodes do not come to one state: {last}; see {}", self.dir.display());
            }
            thread::sleep(TICK);
        }
    }
}

impl Trio for Nodes {
    fn count(&self) -> usize {
        if self.words.has_witness { WITNESSED } else { COUNT }
    }

    fn connect(&self, node: usize) -> anyhow::Result<Client> {
        ensure!(!self.frozen[node], "{} is frozen", NAMES[node]);
        let server = self.servers[node].as_ref().with_context(|| format!("{} does not run", NAMES[node]))?;
        let mut config = server.config();
        config.connect_timeout(Duration::from_secs(10));
        config.connect(NoTls).with_context(|| format!("cannot connect to {}", NAMES[node]))
    }

    fn data(&self, node: usize) -> PathBuf {
        self.dir.join(NAMES[node])
    }

    fn env(&self, _node: usize) -> Env {
        Env::real()
    }
}

/// Returns whether [`PATIENCE`] has passed since `start_ns`.
pub(crate) fn is_over(start_ns: u64) -> bool {
    Duration::from_nanos(RealClock.now_ns() - start_ns) > PATIENCE
}
