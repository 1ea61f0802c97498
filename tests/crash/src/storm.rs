//! `storm`: connections that misbehave, many at a time and on each port, while clients with the bank's load go on.
//!
//! A wave (`waves.rs`) opens connections of one kind from several threads and holds them; the load (`load.rs`) must go
//! on meanwhile; then the connections are dropped.
//!
//! # Oracles
//! - S1. The load goes on: each of its clients is answered before and while a wave is held, with at most [`STRETCH`]
//!   connections of waves between two answers of one client; none of its requests is refused.
//! - S2. A new client can connect while a wave is held. It may be refused with 53300 only if the wave's connections are
//!   sessions.
//! - S3. Nothing panics, and the process stays the same.
//! - S4. Once a wave is gone, the server has as many sockets as before, and about as many threads.
//! - S5. The load's acknowledged commits are there at the end, and after the next start.

mod load;
mod peer;
mod waves;

use std::{
    fmt, fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use collie_env::{Clock as _, RealClock};
use collie_netlab::Port;
use postgres::NoTls;

use crate::{
    bank,
    random::Random,
    report::{Figures, Report},
    server::Server,
};
use load::Load;
use waves::{ALL, Held, Ports, Wave};

/// The arguments of the command.
pub(crate) struct Plan {
    pub(crate) waves: u64,
    pub(crate) seed: u64,
    /// The number of clients of the load.
    pub(crate) clients: u64,
    /// Only waves with this in their name.
    pub(crate) only: Option<String>,
    pub(crate) server: PathBuf,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waves, seed, clients, only, server } = self;
        write!(f, "storm --waves {waves} --seed {seed} --clients {clients} --server {}", server.display())?;
        only.iter().try_for_each(|only| write!(f, " --only '{only}'"))
    }
}

/// The number of sessions that the server accepts.
const SESSIONS: u64 = 100;
/// The number of threads that make a wave.
const MAKERS: u64 = 4;
/// The most connections of waves that may be made between two answers of one client: a wave has up to 3,000, made as
/// fast as four threads can.
const STRETCH: u64 = 2500;
/// Commits that each client must make while a wave is held.
const COMMITS: u64 = 20;
/// The number of threads that the server may have more than before, since its pool for blocking work keeps some.
const THREADS_MORE: usize = 4;
/// The limit of every wait for something that must come, on a machine that is busy with something else.
const PATIENCE_NS: u64 = 120_000_000_000;
const TICK: Duration = Duration::from_millis(10);

/// The sums over all waves.
#[derive(Default)]
struct Counts {
    connections: u64,
    refused: u64,
}

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    let dir = tempfile::Builder::new().prefix("collie-storm-").tempdir()?;
    let outcome = blow(plan, dir.path());
    if outcome.is_err() {
        let kept = dir.keep();
        return outcome.with_context(|| format!("data and what the server said are kept in {}", kept.display()));
    }
    outcome
}

fn blow(plan: &Plan, dir: &Path) -> anyhow::Result<Report> {
    let (data, said) = (dir.join("data"), dir.join("said"));
    let (replicas, http) = (Port::keep()?, Port::keep()?);
    let settings = [
        "wal.ring=private".to_owned(),
        format!("server.max_connections={SESSIONS}"),
        format!("server.replica_listen={}", replicas.address()),
        format!("server.http={}", http.address()),
    ];
    let mut server = Server::start_logged(&plan.server, &[], &data, &settings, &said)?;
    let sql = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
    let ports = Ports { sql, replicas: replicas.address(), http: http.address() };
    let mut client = server.connect()?;
    bank::create(&mut client)?;
    client.batch_execute("CREATE TABLE stormed (n int, s text)")?;
    drop(client);
    let mut random = Random::new(plan.seed);
    let made = Arc::new(AtomicU64::new(0));
    let load = Load::start(plan.clients, &server.config(), &made, &mut random);
    let mut counts = Counts::default();
    let mut lab = Lab { server: &mut server, load: &load, ports, made: &made, counts: &mut counts };
    // The load must run before its resources are measured: its sockets and threads belong to the level before.
    lab.until_commits("before the first wave")?;
    let before = lab.resources()?;
    let wanted = |wave: &&Wave| plan.only.as_ref().is_none_or(|only| wave.name.contains(only.as_str()));
    let mut left: Vec<&Wave> = Vec::new();
    for _ in 0..plan.waves {
        if left.is_empty() {
            left = ALL.iter().filter(wanted).collect();
        }
        let wave = left.swap_remove(usize::try_from(random.below(left.len() as u64))?);
        lab.wave(wave, before, &mut random).with_context(|| format!("wave of {}", wave.name))?;
        ensure!(!fs::read_to_string(&said)?.contains("panicked at"), "S3: {} had it panic", wave.name);
    }
    let longest = load.longest_stretch();
    ensure!(longest <= STRETCH, "S1: {longest} connections of waves between two answers of one client");
    let journals = load.stop().context("S1")?;
    let commits: usize = journals.iter().map(|journal| journal.outcomes.len()).sum();
    bank::verify(&mut server.connect()?, &journals, true).context("S5")?;
    server.stop()?;
    let server = Server::start_logged(&plan.server, &[], &data, &settings, &said).context("S5: the next start")?;
    bank::verify(&mut server.connect()?, &journals, true).context("S5: after the next start")?;
    let words = format!(
        "storm: {} waves, {} connections, {commits} commits meanwhile, at most {longest} connections between two of one client; a new \
         client was refused {} times for want of a place: all oracles hold",
        plan.waves, counts.connections, counts.refused
    );
    Ok(Report::new(words, Figures { cycles: plan.waves, checked: commits as u64, ..Figures::default() }))
}

/// The resources that the server holds.
#[derive(Clone, Copy, Debug)]
struct Resources {
    sockets: usize,
    threads: usize,
}

struct Lab<'l> {
    server: &'l mut Server,
    load: &'l Load,
    ports: Ports,
    /// Connections that waves have made.
    made: &'l Arc<AtomicU64>,
    counts: &'l mut Counts,
}

impl Lab<'_> {
    fn wave(&mut self, wave: &Wave, before: Resources, random: &mut Random) -> anyhow::Result<()> {
        let begun = self.made.load(Ordering::Relaxed);
        let held = self.make(wave, random)?;
        self.counts.connections += self.made.load(Ordering::Relaxed) - begun;
        self.until_commits("while it is held")?;
        self.new_client(wave)?;
        drop(held);
        self.until_back(before)
    }

    /// Makes a wave from several threads.
    fn make(&self, wave: &Wave, random: &mut Random) -> anyhow::Result<Held> {
        let makers: Vec<_> = (0..MAKERS)
            .map(|maker| {
                let (ports, one, count, made) = (self.ports, wave.one, wave.count, Arc::clone(self.made));
                let mut random = Random::new(random.next());
                thread::spawn(move || {
                    let mut held = Held::new();
                    for n in (maker..count).step_by(usize::try_from(MAKERS).unwrap_or(1)) {
                        held.extend(one(ports, n, &mut random));
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                    held
                })
            })
            .collect();
        let mut held = Held::new();
        for maker in makers {
            held.extend(maker.join().map_err(|_| anyhow!("a peer panicked"))?);
        }
        Ok(held)
    }

    /// Checks S1 and S3: waits until each client of the load has committed again.
    fn until_commits(&mut self, when: &str) -> anyhow::Result<()> {
        let (before, start_ns) = (self.load.commits(), RealClock.now_ns());
        loop {
            ensure!(!self.server.has_ended(), "S3: the server has ended");
            ensure!(self.load.goes_on(), "S1: a client of the load has given up {when}");
            let now = self.load.commits();
            if before.iter().zip(&now).all(|(before, now)| now - before >= COMMITS) {
                return Ok(());
            }
            ensure!(RealClock.now_ns() - start_ns < PATIENCE_NS, "S1: {before:?} commits {when}, {now:?} long after");
            thread::sleep(TICK);
        }
    }

    /// Checks S2.
    fn new_client(&mut self, wave: &Wave) -> anyhow::Result<()> {
        let mut config = self.server.config();
        config.connect_timeout(Duration::from_nanos(PATIENCE_NS));
        match config.connect(NoTls) {
            Ok(mut client) => {
                let one: i32 = client.query_one("SELECT 1", &[]).context("S2: a new client")?.get(0);
                ensure!(one == 1, "S2: 1 is {one}");
                Ok(())
            }
            Err(error) if wave.has_sessions && error.code().is_some_and(|code| code.code() == "53300") => {
                self.counts.refused += 1;
                Ok(())
            }
            Err(error) => Err(error).context("S2: a new client"),
        }
    }

    /// Checks S4.
    fn until_back(&mut self, before: Resources) -> anyhow::Result<()> {
        let start_ns = RealClock.now_ns();
        loop {
            let now = self.resources()?;
            if now.sockets <= before.sockets && now.threads <= before.threads + THREADS_MORE {
                return Ok(());
            }
            if RealClock.now_ns() - start_ns > PATIENCE_NS {
                bail!("S4: {before:?} before, {now:?} long after");
            }
            thread::sleep(TICK);
        }
    }

    fn resources(&self) -> anyhow::Result<Resources> {
        let process = PathBuf::from(format!("/proc/{}", self.server.pid()));
        let mut sockets = 0;
        for descriptor in fs::read_dir(process.join("fd"))? {
            // A descriptor that was closed meanwhile does not count.
            let is_socket =
                fs::read_link(descriptor?.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
            sockets += usize::from(is_socket);
        }
        Ok(Resources { sockets, threads: fs::read_dir(process.join("task"))?.count() })
    }
}
