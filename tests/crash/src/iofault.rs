//! `iofault`: file system calls that fail under a running server.
//!
//! The server's data is in a FUSE file system that this process serves (`passthrough.rs`). In each cycle one fault is
//! drawn (`faults.rs`), for one kind of file and one operation: an I/O error, once or until the fault is cleared, a
//! full disk for a while, short writes, slow calls. It comes under the bank's load with checkpoints, or while the
//! server opens. Then the fault is cleared: the server goes on, if it still runs, and is killed and started again.
//!
//! # Oracles
//! - Those of the bank (O1 to O5), on the server that went on and on the one that was started again.
//! - I1. An error that a client gets has an SQLSTATE of a fault: class 53, class 58, or 08007; a server that ends sends
//!   57P01 to 57P03.
//! - I2. A server never panics, and one that stops says why in its last line.
//! - I3. A server that is started without the fault opens, and accepts commits; one that went on answers every request.
//! - I4. The state that was found after a cycle is there after the next one.
//!
//! The seed fixes what is tried, not how threads meet. The command needs root and FUSE, and says so if they are
//! missing.

mod faults;
mod passthrough;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use collie_env::{Clock, RealClock};
use fuser::Session;
use postgres::{Config, NoTls};

use self::{
    faults::{Failure, Fault, Faults},
    passthrough::PassThrough,
};
use crate::{
    bank,
    journal::{Journal, Outcome},
    mounts,
    random::Random,
    report::{Figures, Report},
    server::Server,
};

/// Clients of the bank at one time; every fourth commits asynchronously.
const CLIENTS: u64 = 4;

/// Client numbers of one cycle start at a multiple of this.
const CLIENTS_PER_CYCLE: u64 = 1_000;

/// The number of cycles on one database.
const ROUND_CYCLES: u64 = 20;

/// The number of threads that serve the file system: a slow call must not delay the others.
const SERVING: usize = 8;

/// How often the command checks whether a fault has struck, and the pause between two checks.
const FAULT_LOOKS: u32 = 100;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How often the command checks whether clients have been answered after the fault: for a minute.
const ANSWER_LOOKS: u32 = 6_000;

/// The arguments of the command.
pub(crate) struct Plan {
    pub(crate) cycles: u64,
    pub(crate) seed: u64,
    pub(crate) server: PathBuf,
    /// The directory for the mounted file system and the evidence of a violation.
    pub(crate) dir: PathBuf,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cycles, seed, server, dir } = self;
        write!(f, "iofault --cycles {cycles} --seed {seed} --server {} --dir {}", server.display(), dir.display())
    }
}

/// The sums over all cycles.
#[derive(Debug, Default)]
struct Total {
    struck: u64,
    /// Servers that ended by themselves; the next field counts refused openings.
    ended: u64,
    refused: u64,
    acknowledged: u64,
    codes: BTreeMap<String, u64>,
}

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    let start_ns = RealClock.now_ns();
    let entered = mounts::enter(&["/dev/fuse"], &[]);
    let dir = tempfile::Builder::new().prefix("collie-iofault-").tempdir_in(&plan.dir)?;
    let [below, shown] = ["below", "shown"].map(|name| dir.path().join(name));
    [&below, &shown].into_iter().try_for_each(std::fs::create_dir)?;
    let faults = Arc::new(Faults::default());
    let mut config = fuser::Config::default();
    config.n_threads = Some(SERVING);
    let session = entered.and_then(|()| {
        let files = PassThrough::new(&below, faults.clone())?;
        Session::new(files, &shown, &config).and_then(Session::spawn).context("FUSE cannot be mounted")
    });
    let session = match session {
        Ok(session) => session,
        Err(missing) => return mounts::skip("iofault", &missing),
    };
    let rings = tempfile::Builder::new().prefix("collie-iofault-").tempdir_in("/dev/shm")?;
    let mut random = Random::new(plan.seed);
    let mut total = Total::default();
    let mut played = Ok(());
    for round in 0..plan.cycles.div_ceil(ROUND_CYCLES) {
        let cycles = ROUND_CYCLES.min(plan.cycles - round * ROUND_CYCLES);
        let data = shown.join(format!("data-{round}"));
        let journals = Vec::new();
        let log = dir.path().join("server.log");
        let round_of = Round { plan, faults: &faults, data: &data, rings: rings.path(), log: &log, journals };
        played = round_of.play(cycles, &mut random, &mut total).with_context(|| format!("round {round}"));
        if played.is_err() {
            break;
        }
        std::fs::remove_dir_all(&data)?;
    }
    faults.clear();
    let unmounted = session.umount_and_join();
    if let Err(error) = played {
        let kept = dir.keep(); // the evidence stays
        return Err(error.context(format!("data and the server's log are kept in {}", kept.display())));
    }
    unmounted?;
    let seconds = Duration::from_nanos(RealClock.now_ns() - start_ns).as_secs_f64();
    let Total { struck, ended, refused, acknowledged, codes } = total;
    let codes: Vec<_> = codes.iter().map(|(code, count)| format!("{code} {count}")).collect();
    let words = format!(
        "iofault: {} cycles, {struck} faults struck, {ended} servers ended and {refused} openings were refused by them; {acknowledged} transactions \
         acknowledged; errors: {}; all oracles hold; {seconds:.1} s",
        plan.cycles,
        codes.join(", ")
    );
    Ok(Report::new(words, Figures { cycles: plan.cycles, checked: acknowledged, acknowledged, ..Figures::default() }))
}

/// A database, over several cycles.
struct Round<'p> {
    plan: &'p Plan,
    faults: &'p Faults,
    data: &'p Path,
    rings: &'p Path,
    /// The log of the servers.
    log: &'p Path,
    journals: Vec<Journal>,
}

impl Round<'_> {
    fn settings(&self, random: &mut Random) -> anyhow::Result<Vec<String>> {
        let protocol = ["help", "mutex", "base"][usize::try_from(random.below(3))?];
        let ring = ["shared", "private"][usize::try_from(random.below(2))?];
        let rings = self.rings.display().to_string();
        let pairs = [
            ("ring", ring),
            ("ring_dir", &rings),
            ("protocol", protocol),
            ("segment_size", "9MiB"),
            ("ring_size", "256KiB"),
            ("flush_bytes", "64KiB"),
        ];
        let mut settings = pairs.map(|(name, value)| format!("wal.{name}={value}")).to_vec();
        settings.push("store.write_buffer_size=16KiB".to_owned());
        if random.below(2) == 0 {
            let small = ["wal.max_total_wal_size=1"];
            settings.extend(small.map(str::to_owned));
        }
        Ok(settings)
    }

    fn start(&self, random: &mut Random) -> anyhow::Result<Server> {
        let settings = self.settings(random)?;
        Server::start_logged(&self.plan.server, &[], self.data, &settings, self.log)
    }

    fn play(mut self, cycles: u64, random: &mut Random, total: &mut Total) -> anyhow::Result<()> {
        let mut server = self.start(random)?;
        bank::create(&mut server.connect()?).context("cannot make the tables")?;
        for cycle in 1..=cycles {
            let fault = Fault::draw(random);
            let played = if random.below(4) == 0 {
                drop(server);
                self.open_with(fault, random, total)
            } else {
                self.run_with(server, fault, cycle, random, total)
            };
            server = played.with_context(|| format!("cycle {cycle}, {fault}"))?;
        }
        Ok(())
    }

    /// Applies a fault while the server opens.
    fn open_with(&mut self, fault: Fault, random: &mut Random, total: &mut Total) -> anyhow::Result<Server> {
        let said = self.said()?.len();
        self.faults.arm(fault);
        let started = self.start(random);
        total.struck += u64::from(self.faults.clear() > 0);
        match started {
            Ok(server) => self.check(&server).context("opened with the fault")?,
            Err(_) => {
                total.refused += 1;
                self.has_said_why(said)?;
            }
        }
        self.start_again(random)
    }

    /// Applies a fault under load.
    fn run_with(
        &mut self,
        mut server: Server,
        fault: Fault,
        cycle: u64,
        random: &mut Random,
        total: &mut Total,
    ) -> anyhow::Result<Server> {
        let said = self.said()?.len();
        let (done, before) = (Arc::new(AtomicBool::new(false)), self.journals.len());
        let config = || server.config();
        let clients = (0..CLIENTS).map(|number| {
            client(config(), cycle * CLIENTS_PER_CYCLE + number, Random::new(random.next()), done.clone())
        });
        let clients: Vec<_> = clients.collect();
        let checkpoints = checkpoints(config(), Duration::from_millis(random.below(60)), done.clone());
        // The random moment of the fault is what the experiment varies.
        thread::sleep(Duration::from_millis(random.below(100)));
        self.faults.arm(fault);
        for _ in 0..FAULT_LOOKS {
            if self.faults.hits() > 0 {
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
        let longest = if fault.failure == Failure::NoSpace { 2_000 } else { 500 };
        thread::sleep(Duration::from_millis(20 + random.below(longest)));
        total.struck += u64::from(self.faults.clear() > 0);
        // The load continues for a while without the fault.
        thread::sleep(Duration::from_millis(20 + random.below(200)));
        done.store(true, Ordering::SeqCst);
        wait_for(&clients)?;
        for client in clients {
            self.journals.push(client.join().map_err(|_| anyhow!("a client panicked"))?);
        }
        checkpoints.join().map_err(|_| anyhow!("a client panicked"))?;
        if server.has_ended() {
            total.ended += 1;
            self.has_said_why(said)?;
        } else {
            self.check(&server).context("on the server that went on")?;
        }
        for journal in &self.journals[before..] {
            let bad = journal.codes.keys().find(|code| !is_of_a_fault(code));
            ensure!(bad.is_none(), "client {} was answered {:?}", journal.client, journal.codes);
            journal.codes.iter().for_each(|(code, count)| *total.codes.entry(code.clone()).or_default() += count);
            total.acknowledged +=
                journal.outcomes.iter().filter(|found| **found == Outcome::Acknowledged).count() as u64;
        }
        server.kill()?;
        self.start_again(random)
    }

    /// Starts the server without a fault, and records the state that it shows.
    fn start_again(&mut self, random: &mut Random) -> anyhow::Result<Server> {
        let server = self.start(random).context("started again without the fault")?; // I3
        self.check(&server).context("started again")?;
        let mut client = server.connect()?;
        client
            .batch_execute("SET synchronous_commit = on; INSERT INTO history VALUES (-1, -1, 1, 0, '')")
            .context("I3")?;
        client.batch_execute("DELETE FROM history WHERE client = -1")?;
        for journal in &mut self.journals {
            let there = bank::present(&mut client, "history", journal.client)?;
            journal.settle_by(|seq| there.contains_key(&seq)); // I4
        }
        Ok(server)
    }

    fn check(&self, server: &Server) -> anyhow::Result<()> {
        ensure!(!self.said()?.contains("panicked at"), "a server panicked"); // I2
        bank::verify(&mut server.connect()?, &self.journals, false)
    }

    fn said(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.log)?)
    }

    /// Checks I2 for the log from `start` on.
    fn has_said_why(&self, start: usize) -> anyhow::Result<()> {
        let said = self.said()?;
        ensure!(!said.contains("panicked at"), "a server panicked");
        let last = said.get(start..).and_then(|said| said.lines().last()).unwrap_or_default();
        ensure!(last.contains("error"), "a server ended, and its last line is {last:?}");
        Ok(())
    }
}

/// Returns whether I1 allows this SQLSTATE. A deadlock is allowed, too, since no fault causes it.
fn is_of_a_fault(code: &str) -> bool {
    code.starts_with("53") || code.starts_with("58") || code.starts_with("57P0") || ["08007", "40P01"].contains(&code)
}

/// Waits until all clients have ended, each with an answer to its last request.
fn wait_for(clients: &[thread::JoinHandle<Journal>]) -> anyhow::Result<()> {
    for _ in 0..ANSWER_LOOKS {
        if clients.iter().all(thread::JoinHandle::is_finished) {
            return Ok(());
        }
        thread::sleep(LOOK_EVERY);
    }
    bail!("the fault is gone, and a client is not answered")
}

fn client(config: Config, id: u64, mut random: Random, done: Arc<AtomicBool>) -> thread::JoinHandle<Journal> {
    thread::spawn(move || {
        let mut journal = Journal::new(id, id % 4 != 3);
        if let Ok(mut client) = config.connect(NoTls) {
            bank::work_until(&mut client, &mut journal, &mut random, &done);
        }
        journal
    })
}

/// Makes checkpoints, which may fail, until the connection breaks or `done` is set.
fn checkpoints(config: Config, pause: Duration, done: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let Ok(mut client) = config.connect(NoTls) else { return };
        while !client.is_closed() && !done.load(Ordering::SeqCst) {
            let _may_fail = client.batch_execute("CHECKPOINT");
            thread::sleep(pause);
        }
    })
}
