//! [`Nodes`]: three servers, or two and a witness, on three simulated hosts.
//!
//! A node is always started with the same settings, whatever role it had. A node that ends by itself is soon started
//! again, as by a supervisor.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use collie_env::{Clock, Env, Files as _, SimFiles, SimRandom};
use collie_server::{Server, WitnessServer, config::Config};
use collie_simkernel::{Host, Process};
use postgres::{Client, NoTls};
use tokio::sync::watch;

use super::disk::Disk;
use crate::{
    failover::load::config,
    random::Random,
    trio::{COUNT, NAMES, Trio, WITNESSED},
};

/// The paths of each machine's database, or of the witness's directory, and of its key.
const DATA: &str = "/var/collie";
const KEY: &str = "/etc/collie.key";

/// The ports for clients and for replicas.
const PORT: u16 = 5432;
const REPLICA_PORT: u16 = 6432;

/// The port of the witness.
const WITNESS_PORT: u16 = 7432;

/// A server or the witness, with its host and its disk.
pub(crate) struct Node {
    pub(crate) host: Host,
    address: Ipv4Addr,
    clock: Arc<dyn Clock>,
    pub(crate) disk: Disk,
    process: Option<Process>,
    stop: watch::Sender<bool>,
    has_power: bool,
    is_paused: bool,
    /// A fault has ended it, and also starts it again.
    is_down: bool,
}

/// See the module's documentation.
pub(crate) struct Nodes {
    pub(crate) all: Vec<Node>,
    settings: Vec<String>,
    /// The number of servers; the last machine has the witness if they are fewer than the machines.
    servers: usize,
}

/// Returns the address of a node.
fn address_of(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, u8::try_from(node + 1).unwrap_or(u8::MAX))
}

/// Returns the address of the witness.
fn witness_at() -> SocketAddr {
    SocketAddr::from((address_of(WITNESSED), WITNESS_PORT))
}

/// Serves in a process of a simulation until the node is stopped; returns how that ended.
fn serve(env: Env, stopping: watch::Receiver<bool>, config: Config) -> String {
    let started = Server::start_in(env, stopping, config, Path::new(DATA), &mut |_| ());
    let ran = started.and_then(|(server, _)| server.run());
    ran.map_or_else(|error| format!("error: {error}"), |stopped| format!("{stopped:?}"))
}

/// Does the same as the witness.
fn witness(env: Env, stopping: watch::Receiver<bool>) -> String {
    match WitnessServer::start_in(env, stopping, witness_at(), Path::new(DATA), Some(Path::new(KEY))) {
        Ok(server) => {
            server.run();
            "stopped".to_owned()
        }
        Err(error) => format!("error: {error}"),
    }
}

impl Nodes {
    /// Creates the hosts and empty disks; every server has `settings`.
    pub(crate) fn new(
        settings: Vec<String>,
        has_witness: bool,
        sync_us: u64,
        random: &mut Random,
    ) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for node in 0..COUNT {
            let (address, files) = (address_of(node), SimFiles::new());
            files.create_dir_all(Path::new("/etc"))?;
            let key = files.create(Path::new(KEY))?;
            key.write_at(0, collie_netlab::key_text().as_bytes())?;
            key.sync_data()?;
            files.sync_dir(Path::new("/etc"))?;
            let wrong_by_us = random.below(20_000_000).cast_signed() - 10_000_000;
            all.push(Node {
                host: Host::add(address),
                address,
                clock: collie_simkernel::clock(Duration::from_secs(random.below(100_000)), wrong_by_us),
                disk: Disk::over(files, sync_us),
                process: None,
                stop: watch::channel(false).0,
                has_power: true,
                is_paused: false,
                is_down: false,
            });
        }
        Ok(Self { all, settings, servers: if has_witness { WITNESSED } else { COUNT } })
    }

    fn config(&self, node: usize) -> anyhow::Result<Config> {
        let replicas_at = |node: usize| format!("{}:{REPLICA_PORT}", address_of(node));
        let others = (0..self.servers).filter(|other| *other != node);
        let peers: Vec<String> = others.map(|other| format!("{}={}", NAMES[other], replicas_at(other))).collect();
        let mut settings = vec![
            format!("server.listen={}:{PORT}", address_of(node)),
            format!("replication.key_file={KEY}"),
            format!("server.replica_listen={}", replicas_at(node)),
            format!("replication.slot={}", NAMES[node]),
            format!("replication.peers={}", peers.join(",")),
        ];
        // The first node creates the database; the others start with a base backup of it.
        settings.extend((node > 0).then(|| format!("server.replica_of={}", replicas_at(0))));
        settings.extend((self.servers < COUNT).then(|| format!("replication.witness={}", witness_at())));
        let common =
            ["server.worker_threads=2", "server.max_connections=100", "training.samples=off", "training.read_share=0"];
        settings.extend(common.map(str::to_owned));
        settings.extend(self.settings.iter().cloned());
        let mut config = Config::default();
        for pair in &settings {
            config.set_pair(pair).with_context(|| pair.clone())?;
        }
        Ok(config)
    }

    /// Returns the number of servers, which are the first machines.
    pub(crate) fn servers(&self) -> usize {
        self.servers
    }

    /// Starts a node from its disk.
    ///
    /// # Errors
    /// A setting is refused.
    pub(crate) fn start(&mut self, node: usize) -> anyhow::Result<()> {
        let config = if node < self.servers { Some(self.config(node)?) } else { None };
        self.bury(node);
        let of = &mut self.all[node];
        if !of.has_power {
            of.host.set_on(true);
            of.has_power = true;
        }
        let env = Env {
            files: Arc::new(of.disk.clone()),
            memory: Arc::new(of.disk.files.clone()),
            clock: of.clock.clone(),
            random: Arc::new(SimRandom::new(collie_simkernel::draw())),
        };
        let (stop, stopping) = watch::channel(false);
        (of.stop, of.is_paused, of.is_down) = (stop, false, false);
        of.process = Some(Process::start(NAMES[node], of.host, move || {
            let words = match config {
                Some(config) => serve(env, stopping, config),
                None => witness(env, stopping),
            };
            eprintln!("{words}");
        }));
        Ok(())
    }

    /// Returns whether a node's process exists, running or paused.
    pub(crate) fn runs(&self, node: usize) -> bool {
        self.all[node].process.is_some_and(|process| !process.has_ended())
    }

    /// Starts the nodes that have ended by themselves.
    ///
    /// # Errors
    /// A setting is refused.
    pub(crate) fn start_dead(&mut self) -> anyhow::Result<()> {
        for node in 0..COUNT {
            if !self.runs(node) && !self.all[node].is_down {
                self.start(node)?;
            }
        }
        Ok(())
    }

    /// Takes over the disk of a process that has ended.
    fn bury(&mut self, node: usize) {
        let of = &mut self.all[node];
        if of.process.take().is_some() {
            of.disk.files = of.disk.files.process_kill();
        }
    }

    /// Kills a node (SIGKILL).
    pub(crate) fn kill(&mut self, node: usize) {
        self.all[node].process.into_iter().for_each(Process::kill);
        self.bury(node);
        self.all[node].is_down = true;
    }

    /// Cuts the power of a node; `seed` decides what its disk keeps.
    pub(crate) fn cut_power(&mut self, node: usize, seed: u64) {
        let of = &mut self.all[node];
        if of.has_power {
            of.host.set_on(false);
            (of.has_power, of.process, of.is_down) = (false, None, true);
            of.disk.files = of.disk.files.power_cut(seed);
        }
    }

    /// Asks a node to stop in order.
    pub(crate) fn stop(&self, node: usize) {
        self.all[node].stop.send_replace(true);
    }

    /// Pauses a node (SIGSTOP), or resumes it (SIGCONT).
    pub(crate) fn pause(&mut self, node: usize, is_paused: bool) {
        let of = &mut self.all[node];
        of.is_paused = is_paused;
        of.process.into_iter().for_each(if is_paused { Process::pause } else { Process::resume });
    }

    /// Returns a view of the nodes as they are now.
    pub(crate) fn view(&self) -> View {
        let seen = |node: usize| {
            let Node { address, clock, disk, is_paused, .. } = &self.all[node];
            let answers = self.runs(node) && !is_paused;
            Seen { address: *address, answers, files: disk.files.clone(), clock: clock.clone() }
        };
        View((0..self.servers).map(seen).collect())
    }

    /// Cuts the link from one node to another, or repairs it.
    pub(crate) fn cut(&self, from: usize, to: usize, is_cut: bool) {
        self.all[from].host.cut(self.all[to].host, is_cut);
    }

    /// Repairs the network and the disks, resumes paused nodes, and starts nodes that are down.
    ///
    /// # Errors
    /// A setting is refused.
    pub(crate) fn heal(&mut self) -> anyhow::Result<()> {
        for node in 0..COUNT {
            (0..COUNT).filter(|other| *other != node).for_each(|other| self.cut(node, other, false));
            self.pause(node, false);
            let disk = &self.all[node].disk;
            disk.files.clear_faults();
            disk.files.set_capacity(None);
            disk.set_stalled(false);
            self.all[node].is_down = false;
        }
        self.start_dead()
    }

    /// Returns the clients' address of each server.
    pub(crate) fn places(&self) -> [Option<SocketAddr>; COUNT] {
        std::array::from_fn(|node| (node < self.servers).then(|| SocketAddr::from((address_of(node), PORT))))
    }

    /// Returns the last output lines of all nodes, in the order of time.
    pub(crate) fn console(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        self.all.iter().filter_map(|node| node.process).for_each(|process| lines.extend(process.console()));
        lines.sort();
        lines.join("\n")
    }
}

/// The servers as an outside observer sees them at one moment.
#[derive(Clone, Debug)]
pub(crate) struct View(Vec<Seen>);

#[derive(Clone, Debug)]
struct Seen {
    address: Ipv4Addr,
    answers: bool,
    files: SimFiles,
    clock: Arc<dyn Clock>,
}

/// Returns whether a node reports that it can do nothing more until it is started again.
const IS_OVER: &str = "SELECT count(*) > 0 FROM collie_health WHERE severity = 'failure' AND reason LIKE '%until the server is started again%'";

impl View {
    /// Returns the nodes that report that they have to be started again.
    pub(crate) fn over(&self) -> Vec<usize> {
        let is_over = |node: &usize| {
            let asked = self.connect(*node).and_then(|mut client| Ok(client.query_one(IS_OVER, &[])?.get(0)));
            asked.unwrap_or(false)
        };
        (0..self.count()).filter(is_over).collect()
    }

    /// Runs `work` on another thread and waits for it up to `patience`, so that a server that hangs holds up no other
    /// work.
    pub(crate) fn within<T: Send + 'static>(
        self,
        patience: Duration,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let (send, receive) = mpsc::channel();
        thread::spawn(move || send.send(work(&self)));
        receive.recv_timeout(patience).ok()
    }
}

impl Trio for View {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn connect(&self, node: usize) -> anyhow::Result<Client> {
        let of = &self.0[node];
        ensure!(of.answers, "{} does not run", NAMES[node]);
        let mut config = config(SocketAddr::from((of.address, PORT)));
        config
            .options("-c statement_timeout=60s")
            .connect(NoTls)
            .with_context(|| format!("cannot connect to {}", NAMES[node]))
    }

    fn data(&self, _node: usize) -> PathBuf {
        PathBuf::from(DATA)
    }

    fn env(&self, node: usize) -> Env {
        let files = self.0[node].files.clone();
        let (memory, clock) = (Arc::new(files.clone()), self.0[node].clock.clone());
        Env { files: Arc::new(files), memory, clock, random: Arc::new(SimRandom::new(1)) }
    }
}
