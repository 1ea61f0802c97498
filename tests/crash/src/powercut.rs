//! `powercut`: power cuts on a real file system.
//!
//! The server's data is on an ext4 (`served.rs`) over a disk with a volatile cache (`drive.rs`), which this process
//! serves. At a random moment the power goes: the server is killed, the kernel's later writes are dropped, shared
//! memory is gone, and the disk keeps a random part of the writes that no flush covered. Then the ext4 is mounted and
//! the server started again, and all acknowledged commits are compared (`bank.rs`, `definitions.rs`). Cuts come under
//! load with checkpoints, definitions and backups, while the server opens after an earlier cut, and right after an
//! opening that followed a kill.
//!
//! # Oracles
//! - Those of the bank (O1 to O5, without a ring) and of definitions (D1 to D3).
//! - W1. The state that was found after a cut is there after the next one, including transactions without an answer,
//!   since they were shown.
//! - W2. A backup that was acknowledged before the cut is whole, and has everything that was there before it began.
//!
//! The seed fixes what is tried, not how threads meet. The command needs root, FUSE, loop devices and ext4, and says so
//! if they are missing.

mod drive;
mod image;
mod served;

use std::{
    fmt,
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, anyhow, ensure};
use collie_env::{Clock, RealClock};
use postgres::{Config, NoTls};
use tempfile::TempDir;

use self::{drive::Moment, image::Image, served::ServedDrive};
use crate::{
    backups, bank, checkpoints,
    definitions::Definitions,
    journal::{Journal, Outcome},
    mounts,
    random::Random,
    report::{Figures, Report},
    server::Server,
};

/// Out of this many cuts one may leave a file system that the kernel cannot mount (a night has shown one in 560); more
/// indicate a mistake in the drive.
const CUTS_PER_LOST_DISK: u64 = 100;

/// The number of cuts on one database.
const ROUND_CUTS: u64 = 25;

/// The size of the disk.
const DISK_BYTES: usize = 384 << 20;

/// Clients of the bank at one time; every fourth commits asynchronously.
const CLIENTS: u64 = 6;

/// The client numbers of a cut start at a multiple of this.
const CLIENTS_PER_CUT: u64 = 1_000;

/// The arguments of the command.
pub(crate) struct Plan {
    pub(crate) cycles: u64,
    pub(crate) seed: u64,
    pub(crate) server: PathBuf,
    /// The directory for mounted file systems and the evidence of a violation.
    pub(crate) dir: PathBuf,
    /// A mistake that is planted in the server, which is then this program.
    pub(crate) plant: Option<String>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cycles, seed, server, dir, plant } = self;
        write!(f, "powercut --cycles {cycles} --seed {seed} --server {} --dir {}", server.display(), dir.display())?;
        plant.iter().try_for_each(|mistake| write!(f, " --plant {mistake}"))
    }
}

/// The sums over all rounds.
#[derive(Debug, Default)]
struct Total {
    cuts: u64,
    /// Cuts while a server opened.
    opening: u64,
    acknowledged: u64,
    /// Lost asynchronous commits, which are allowed.
    lost: u64,
    definitions: u64,
    /// File systems that the kernel could not mount after a cut.
    lost_disks: u64,
    backups: u64,
    cached_writes: usize,
    flushes: u64,
}

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    let start_ns = RealClock.now_ns();
    let programs = ["mkfs.ext4", "mount"];
    let entered = mounts::enter(&["/dev/fuse", "/dev/loop-control"], &programs);
    let dir = tempfile::Builder::new().prefix("collie-powercut-").tempdir_in(&plan.dir)?;
    let mut random = Random::new(plan.seed);
    let disk = entered.and_then(|()| {
        let mut disk = ServedDrive::new(dir.path(), DISK_BYTES)?;
        disk.mount(&mut random)?;
        Ok(disk)
    });
    let mut disk = match disk {
        Ok(disk) => disk,
        Err(missing) => return mounts::skip("powercut", &missing),
    };
    let mut total = Total::default();
    let mut round = 0;
    while total.cuts < plan.cycles {
        let cuts = ROUND_CUTS.min(plan.cycles - total.cuts);
        let mut life = Lives::new(plan, &mut disk, dir.path(), &mut random, &mut total)?;
        if let Err(error) = life.run(cuts) {
            let saved = life.last.save(&dir.path().join("disk.img"));
            drop(life);
            drop(disk);
            let kept = dir.keep(); // keep the evidence: the disk as of the return of the power, and the servers' log
            saved?;
            return Err(
                error.context(format!("round {round}, the disk and the server's log are kept in {}", kept.display()))
            );
        }
        round += 1;
    }
    let seconds = Duration::from_nanos(RealClock.now_ns() - start_ns).as_secs_f64();
    let Total { cuts, opening, acknowledged, lost, definitions, lost_disks, backups, cached_writes, flushes } = total;
    let words = format!(
        "powercut: {cuts} cuts in {round} rounds, {opening} of them in an opening; {acknowledged} transactions, {definitions} definitions and {backups} \
         backups acknowledged, {lost} of asynchronous ones lost; {flushes} flushes of the disk, {cached_writes} writes in its cache at cuts, {lost_disks} file systems that cannot be mounted: \
         all oracles hold; {seconds:.1} s"
    );
    Ok(Report::new(words, Figures { cycles: cuts, cuts, checked: acknowledged, acknowledged, ..Figures::default() }))
}

/// A database, over all of its cuts.
struct Lives<'p> {
    plan: &'p Plan,
    disk: &'p mut ServedDrive,
    dir: &'p Path,
    random: &'p mut Random,
    total: &'p mut Total,
    /// The directory of rings, which exists as long as the power is on.
    rings: TempDir,
    journals: Vec<Journal>,
    definitions: Definitions,
    /// The name of an acknowledged backup that was not checked yet.
    backup: Option<String>,
    /// The disk as of the return of the power.
    last: Image,
}

fn rings() -> anyhow::Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("collie-powercut-").tempdir_in("/dev/shm")?)
}

impl<'p> Lives<'p> {
    fn new(
        plan: &'p Plan,
        disk: &'p mut ServedDrive,
        dir: &'p Path,
        random: &'p mut Random,
        total: &'p mut Total,
    ) -> anyhow::Result<Self> {
        disk.blank()?;
        disk.mount(random)?;
        let last = disk.drive.shown();
        let (journals, definitions) = (Vec::new(), Definitions::default());
        Ok(Self { plan, disk, dir, random, total, rings: rings()?, journals, definitions, backup: None, last })
    }

    fn data(&self) -> PathBuf {
        self.disk.place().join("data")
    }

    /// Draws settings: half of all servers flush tables, and release log, as often as possible.
    fn settings(&mut self) -> anyhow::Result<Vec<String>> {
        let protocol = ["help", "mutex", "base"][usize::try_from(self.random.below(3))?];
        let ring = ["shared", "private"][usize::try_from(self.random.below(2))?];
        let pairs = [
            ("ring", ring),
            ("ring_dir", &self.rings.path().display().to_string()),
            ("protocol", protocol),
            ("segment_size", "9MiB"),
            ("ring_size", "256KiB"),
            ("flush_bytes", "64KiB"),
        ];
        let mut settings = pairs.map(|(name, value)| format!("wal.{name}={value}")).to_vec();
        if self.random.below(2) == 0 {
            let small = ["store.write_buffer_size=16KiB", "wal.max_total_wal_size=1"];
            settings.extend(small.map(str::to_owned));
        }
        Ok(settings)
    }

    fn arguments(&self) -> Vec<String> {
        let planted = self.plan.plant.iter().flat_map(|mistake| ["planted".to_owned(), mistake.clone()]);
        planted.collect()
    }

    fn start(&mut self) -> anyhow::Result<Server> {
        let settings = self.settings()?;
        let log = self.dir.join("server.log");
        Server::start_logged(&self.plan.server, &self.arguments(), &self.data(), &settings, &log)
    }

    fn run(&mut self, cuts: u64) -> anyhow::Result<()> {
        let mut server = self.start()?;
        bank::create(&mut server.connect()?).context("cannot make the tables")?;
        let end = self.total.cuts + cuts;
        while self.total.cuts < end {
            let cut = self.total.cuts;
            let opened = self.cycle(server, end).with_context(|| format!("after cut {cut}"))?;
            let Some(next) = opened else { return Ok(()) };
            server = next;
        }
        Ok(())
    }

    /// Cuts the power under load, and perhaps again while the server opens, and compares. Returns the server that
    /// opened, or `None` if the kernel cannot mount the file system, which is not the server's fault.
    fn cycle(&mut self, mut server: Server, end: u64) -> anyhow::Result<Option<Server>> {
        let before = self.journals.len();
        let load = Load::start(&server, self.total.cuts + 1, self.definitions.clone(), self.random);
        self.await_moment(Duration::from_millis(600));
        // A server that opens after a kill may read data that is only in the machine's memory. Whatever it shows must
        // be on disk at the power cut (W1).
        let cut = if self.random.below(4) == 0 {
            self.disk.drive.release();
            server.strike()?;
            drop(server);
            self.hear(load)?;
            server = self.start().context("opening after a kill")?;
            self.look(&server, before).context("after a kill")?;
            self.disk.drive.cut(|| server.strike())?
        } else {
            let cut = self.disk.drive.cut(|| server.strike())?;
            self.hear(load)?;
            cut
        };
        drop(server);
        if !self.power_on(cut)? {
            return Ok(None);
        }
        // Recovery may be interrupted anywhere, more than once.
        while self.total.cuts < end && self.random.below(3) == 0 {
            let (settings, arguments, data) = (self.settings()?, self.arguments(), self.data());
            let mut opening = Server::start_unheard(&self.plan.server, &arguments, &data, &settings)?;
            self.await_moment(Duration::from_millis(250));
            let cut = self.disk.drive.cut(|| opening.strike())?;
            drop(opening);
            self.total.opening += 1;
            if !self.power_on(cut)? {
                return Ok(None);
            }
        }
        if let Some(name) = self.backup.take() {
            self.verify_backup(&name, before).with_context(|| format!("backup {name}"))?;
            self.total.backups += 1;
        }
        let server = self.start().context("opening again")?;
        self.look(&server, before)?;
        Ok(Some(server))
    }

    /// Records the answers that the load's clients got.
    fn hear(&mut self, load: Load) -> anyhow::Result<()> {
        let (journals, definitions, backup) = load.end()?;
        let answers = journals.iter().flat_map(|journal| &journal.outcomes);
        self.total.acknowledged += answers.filter(|outcome| **outcome == Outcome::Acknowledged).count() as u64;
        self.journals.extend(journals);
        self.total.definitions += definitions.answered - self.definitions.answered;
        (self.definitions, self.backup) = (definitions, backup);
        Ok(())
    }

    /// Compares the server's state with the clients' answers; from then on that state must stay (W1). The journals from
    /// `before` on are new.
    fn look(&mut self, server: &Server, before: usize) -> anyhow::Result<()> {
        let mut client = server.connect()?;
        self.definitions.verify(&mut client)?;
        bank::verify(&mut client, &self.journals, false)?;
        for journal in &mut self.journals[before..] {
            let there = bank::present(&mut client, "history", journal.client)?;
            let lost =
                |(seq, outcome): &(u64, &Outcome)| **outcome == Outcome::Acknowledged && !there.contains_key(seq);
            self.total.lost += (1..).zip(&journal.outcomes).filter(lost).count() as u64;
            journal.settle_by(|seq| there.contains_key(&seq));
        }
        Ok(())
    }

    /// Waits for the random moment of a cut, which is what the experiment varies: a moment in time, or one between the
    /// calls that reach the disk, early ones more often than later ones. Then the disk stalls for some milliseconds, in
    /// which a client with a premature answer may act on it.
    fn await_moment(&mut self, most: Duration) {
        let time = Duration::from_micros(self.random.below(u64::try_from(most.as_micros()).unwrap_or(u64::MAX)));
        let drawn = usize::try_from(self.random.below(Moment::ALL.len() as u64 + 1)).unwrap_or(0);
        let calls = 2 << self.random.below(8);
        let (after, stall) = (self.random.below(calls), Duration::from_micros(self.random.below(20_000)));
        match Moment::ALL.get(drawn) {
            None => thread::sleep(time),
            Some(moment) => {
                self.disk.drive.arm(*moment, after);
                self.disk.drive.wait_until_held(most);
                thread::sleep(stall);
            }
        }
    }

    /// Turns the power on again; returns whether the file system can be mounted.
    fn power_on(&mut self, cut: drive::Cut) -> anyhow::Result<bool> {
        self.total.cuts += 1;
        self.total.cached_writes += cut.cached_writes;
        self.total.flushes += cut.flushes;
        self.last = self.disk.take_down(self.random)?;
        self.rings = rings()?;
        let Err(error) = self.disk.mount(self.random) else { return Ok(true) };
        self.total.lost_disks += 1;
        let bearable = 1 + self.total.cuts / CUTS_PER_LOST_DISK;
        ensure!(self.total.lost_disks <= bearable, "{} file systems are lost: {error:#}", self.total.lost_disks);
        Ok(false)
    }

    /// Checks W2. The first `before` journals had ended when the backup began.
    fn verify_backup(&mut self, name: &str, before: usize) -> anyhow::Result<()> {
        let place = self.data().join("copies").join(name);
        let restored = self.dir.join("restored");
        backups::bring_back(&place, &restored)?;
        let settings = self.settings()?;
        let server = Server::start_logged(
            &self.plan.server,
            &self.arguments(),
            &restored,
            &settings,
            &self.dir.join("restored.log"),
        )?;
        bank::verify(&mut server.connect()?, &self.journals[..before], false)?;
        drop(server);
        std::fs::remove_dir_all(&restored)?;
        std::fs::remove_dir_all(&place)?;
        self.rings = rings()?;
        Ok(())
    }
}

/// The load on a server until the power cut.
struct Load {
    bank: Vec<JoinHandle<Journal>>,
    definitions: JoinHandle<anyhow::Result<Definitions>>,
    checkpoints: Option<JoinHandle<()>>,
    /// Returns the name of a backup if one was acknowledged.
    backup: Option<JoinHandle<Option<String>>>,
}

impl Load {
    fn start(server: &Server, cut: u64, mut definitions: Definitions, random: &mut Random) -> Self {
        let config = || server.config();
        let client = |number: u64, mut random: Random, config: Config| {
            thread::spawn(move || {
                let mut journal = Journal::new(cut * CLIENTS_PER_CUT + number, number % 4 != 3);
                if let Ok(mut client) = config.connect(NoTls) {
                    bank::work(&mut client, &mut journal, &mut random);
                }
                journal
            })
        };
        let bank = (0..CLIENTS).map(|number| client(number, Random::new(random.next()), config())).collect();
        let (defines, mut steps, connect) = (random.below(2) == 0, Random::new(random.next()), config());
        let definitions = thread::spawn(move || {
            if let (true, Ok(mut client)) = (defines, connect.connect(NoTls)) {
                definitions.work(&mut client, &mut steps)?;
            }
            Ok(definitions)
        });
        let (comes, pause) = (random.below(2) == 0, Duration::from_millis(random.below(60)));
        let checkpoints = comes.then(|| checkpoints::repeat(config(), pause));
        let backup = (random.below(5) == 0).then(|| backups::make(config(), format!("b{cut}")));
        Self { bank, definitions, checkpoints, backup }
    }

    /// Waits until all clients have noticed that the server is gone; returns their answers.
    fn end(self) -> anyhow::Result<(Vec<Journal>, Definitions, Option<String>)> {
        let panicked = |_| anyhow!("a client panicked");
        let journals = self.bank.into_iter().map(|thread| thread.join().map_err(panicked)).collect::<Result<_, _>>()?;
        let definitions = self.definitions.join().map_err(panicked)??;
        self.checkpoints.map_or(Ok(()), |thread| thread.join().map_err(panicked))?;
        let backup = self.backup.map_or(Ok(None), |thread| thread.join().map_err(panicked))?;
        Ok((journals, definitions, backup))
    }
}
