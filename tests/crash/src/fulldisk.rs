//! `fulldisk`: a server fills its own disk with rows, round after round, and SQL alone has to make room again.
//!
//! The directory of the server is on a tmpfs of this process, of a few tens of MiB. In each round one client puts rows
//! into tables (`ballast.rs`) until the disk takes no more, while clients of the bank work. In half of the rounds the
//! server is killed then, some servers right after their start too, and started again on the full disk. Everything is
//! read and compared with the journals. Then one table is truncated or dropped, or rows of it are deleted first, and
//! writes must be accepted again. A database lasts for several rounds.
//!
//! # Oracles
//! - Those of the bank (O1 to O5), and those of the ballast: an acknowledged batch of rows is there as a whole, and no
//!   refused, deleted or truncated one.
//! - V1. What a full disk refuses gets 53100, and no other error.
//! - V2. A full disk stops no read, and no DELETE, TRUNCATE or DROP.
//! - V3. After a TRUNCATE or DROP, writes are accepted without any other help.
//! - V4. A server that is killed while its disk is full starts again on it.
//!
//! The seed fixes what is tried, not how threads meet. The command needs root, and says so if it is missing.

mod ballast;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, anyhow, ensure};
use collie_env::{Clock, RealClock};
use nix::mount::MsFlags;
use postgres::NoTls;
use tempfile::TempDir;

use self::ballast::{Ballast, Put};
use crate::{
    bank,
    journal::{Journal, Outcome},
    mounts,
    random::Random,
    report::{Figures, Report},
    server::Server,
};

/// The number of rounds on one database.
const DATABASE_ROUNDS: u64 = 6;

/// Clients of the bank at one time; every fourth commits asynchronously.
const CLIENTS: u64 = 4;

/// The client numbers of a round start at a multiple of this.
const CLIENTS_PER_ROUND: u64 = 1_000;

/// The sizes of the disk, of which each database draws one.
const DISK_MIB: std::ops::Range<u64> = 60..110;

/// A disk counts as full once this many attempts in a row were refused, with the pause between two.
const REFUSALS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// How long the server may take to accept writes once there is room.
const PATIENCE: Duration = Duration::from_secs(60);

/// The arguments of the command.
pub(crate) struct Plan {
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    pub(crate) server: PathBuf,
    /// The directory for the mounted file system and the evidence of a violation.
    pub(crate) dir: PathBuf,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, seed, server, dir } = self;
        write!(f, "fulldisk --rounds {rounds} --seed {seed} --server {} --dir {}", server.display(), dir.display())
    }
}

/// The sums over all rounds.
#[derive(Debug, Default)]
struct Total {
    kills: u64,
    acknowledged: u64,
    /// Batches of rows that the disk took.
    batches: u64,
    /// Writes that were refused with 53100.
    refused: u64,
}

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    let start_ns = RealClock.now_ns();
    if let Err(missing) = mounts::enter(&[], &[]) {
        return mounts::skip("fulldisk", &missing);
    }
    let (mut random, mut total) = (Random::new(plan.seed), Total::default());
    for first in (0..plan.rounds).step_by(usize::try_from(DATABASE_ROUNDS)?) {
        let rounds = first..plan.rounds.min(first + DATABASE_ROUNDS);
        let dir = tempfile::Builder::new().prefix("collie-fulldisk-").tempdir_in(&plan.dir)?;
        let played = Database::new(plan, dir.path(), &mut random, &mut total)?.play(rounds);
        let disk = dir.path().join("disk");
        if let Err(error) = played {
            let kept = dir.keep();
            mounts::run("cp", &["-a".as_ref(), disk.as_os_str(), kept.join("evidence").as_os_str()])?;
            return Err(error.context(format!("data and the server's log are kept in {}", kept.display())));
        }
        mounts::unmount(&disk)?;
    }
    let Total { kills, acknowledged, batches, refused } = total;
    let words = format!(
        "fulldisk: {} rounds, {kills} kills on a full disk; {batches} batches of rows fill it, {acknowledged} transactions acknowledged, {refused} \
         writes refused with 53100: all oracles hold; {:.1} s",
        plan.rounds,
        Duration::from_nanos(RealClock.now_ns() - start_ns).as_secs_f64()
    );
    let checked = acknowledged + batches;
    Ok(Report::new(words, Figures { cycles: plan.rounds, kills, checked, acknowledged, ..Figures::default() }))
}

/// A database on a disk of its own.
struct Database<'p> {
    plan: &'p Plan,
    random: &'p mut Random,
    total: &'p mut Total,
    data: PathBuf,
    log: PathBuf,
    rings: TempDir,
    settings: Vec<String>,
    journals: Vec<Journal>,
    ballast: Ballast,
}

/// The clients of the bank.
struct Clients {
    done: Arc<AtomicBool>,
    workers: Vec<JoinHandle<Journal>>,
}

impl<'p> Database<'p> {
    /// Mounts a disk in `dir`.
    fn new(plan: &'p Plan, dir: &Path, random: &'p mut Random, total: &'p mut Total) -> anyhow::Result<Self> {
        let disk = dir.join("disk");
        fs::create_dir(&disk)?;
        let size = format!("size={}m", DISK_MIB.start + random.below(DISK_MIB.end - DISK_MIB.start));
        let kind = Some("tmpfs");
        nix::mount::mount(kind, &disk, kind, MsFlags::empty(), Some(size.as_str())).context("cannot mount a tmpfs")?;
        let rings = tempfile::Builder::new().prefix("collie-fulldisk-").tempdir_in("/dev/shm")?;
        let buffer = ["16KiB", "1MiB"][usize::try_from(random.below(2))?];
        let protocol = ["help", "mutex", "base"][usize::try_from(random.below(3))?];
        let settings = vec![
            format!("wal.ring_dir={}", rings.path().display()),
            format!("wal.protocol={protocol}"),
            format!("store.write_buffer_size={buffer}"),
            "wal.ring_size=256KiB".to_owned(),
            "wal.flush_bytes=64KiB".to_owned(),
            "wal.segment_size=9MiB".to_owned(),
        ];
        let (data, log) = (disk.join("data"), dir.join("server.log"));
        let (journals, ballast) = (Vec::new(), Ballast::default());
        Ok(Self { plan, random, total, data, log, rings, settings, journals, ballast })
    }

    fn start(&self) -> anyhow::Result<Server> {
        Server::start_logged(&self.plan.server, &[], &self.data, &self.settings, &self.log)
    }

    fn play(mut self, rounds: std::ops::Range<u64>) -> anyhow::Result<()> {
        let mut server = self.start()?;
        bank::create(&mut server.connect()?).context("cannot make the tables")?;
        Ballast::create(&mut server.connect()?)?;
        for round in rounds {
            server = self.round(server, round).with_context(|| format!("round {round}"))?;
            let said = fs::read_to_string(&self.log)?;
            ensure!(!said.contains("panicked at"), "a server panicked");
        }
        server.stop()?;
        let outcomes = self.journals.iter().flat_map(|journal| &journal.outcomes);
        self.total.acknowledged += outcomes.filter(|outcome| **outcome == Outcome::Acknowledged).count() as u64;
        drop(self.rings);
        Ok(())
    }

    fn round(&mut self, mut server: Server, round: u64) -> anyhow::Result<Server> {
        let clients = Clients::start(&server, round, self.random);
        self.fill(&server).context("filling the disk")?;
        let kills = self.random.below(2) == 0;
        if kills {
            server.kill()?;
            self.hear(clients)?;
            if self.random.below(2) == 0 {
                let after = Duration::from_micros(self.random.below(60_000));
                Server::start_and_kill(&self.plan.server, &self.data, &self.settings, after)?;
                self.total.kills += 1;
            }
            self.total.kills += 1;
            server = self.start().context("V4")?;
        } else {
            clients.done.store(true, Ordering::Relaxed);
            self.hear(clients)?;
        }
        self.verify(&server).context("on the full disk")?;
        let mut client = server.connect()?;
        self.ballast.make_room(&mut client, self.random).context("V2")?;
        drop(client);
        self.until_accepted(&server).context("V3")?;
        self.verify(&server).context("once there is room")?;
        Ok(server)
    }

    /// Puts rows until the disk is full.
    fn fill(&mut self, server: &Server) -> anyhow::Result<()> {
        let mut client = server.connect()?;
        let mut refusals = 0;
        while refusals < REFUSALS {
            match self.ballast.put(&mut client, self.random)? {
                Put::Taken => (refusals, self.total.batches) = (0, self.total.batches + 1),
                Put::Refused => {
                    (refusals, self.total.refused) = (refusals + 1, self.total.refused + 1);
                    // Some of what fills the disk may be about to go.
                    thread::sleep(PAUSE);
                }
            }
        }
        Ok(())
    }

    /// Records the answers of the bank's clients (V1).
    fn hear(&mut self, clients: Clients) -> anyhow::Result<()> {
        for worker in clients.workers {
            let journal = worker.join().map_err(|_| anyhow!("a client panicked"))?;
            let other = journal.codes.keys().find(|code| !["53100", "40001", "40P01"].contains(&code.as_str()));
            ensure!(other.is_none(), "V1: a client was answered with {other:?}");
            self.total.refused += journal.codes.get("53100").copied().unwrap_or_default();
            self.journals.push(journal);
        }
        Ok(())
    }

    fn verify(&self, server: &Server) -> anyhow::Result<()> {
        let mut client = server.connect()?;
        bank::verify(&mut client, &self.journals, true)?;
        self.ballast.verify(&mut client)
    }

    /// Waits until a batch of rows is accepted.
    fn until_accepted(&mut self, server: &Server) -> anyhow::Result<()> {
        let (mut client, start_ns) = (server.connect()?, RealClock.now_ns());
        self.ballast.create_dropped(&mut client, PATIENCE)?;
        while self.ballast.put(&mut client, self.random)? == Put::Refused {
            let waited = Duration::from_nanos(RealClock.now_ns() - start_ns);
            ensure!(waited < PATIENCE, "no row is accepted {PATIENCE:?} after room was made");
            thread::sleep(PAUSE);
        }
        self.total.batches += 1;
        Ok(())
    }
}

impl Clients {
    fn start(server: &Server, round: u64, random: &mut Random) -> Self {
        let done = Arc::<AtomicBool>::default();
        let worker = |number| {
            let mut journal = Journal::new(round * CLIENTS_PER_ROUND + number, number % 4 != 3);
            let (config, done, mut random) = (server.config(), done.clone(), Random::new(random.next()));
            thread::spawn(move || {
                if let Ok(mut client) = config.connect(NoTls) {
                    bank::work_until(&mut client, &mut journal, &mut random, &done);
                }
                journal
            })
        };
        let workers = (0..CLIENTS).map(worker).collect();
        Self { done, workers }
    }
}
