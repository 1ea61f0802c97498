//! `powercut`: power cuts on a real file system.
//!
//! The server's data lie on an ext4 (`served.rs`) over a disk with a volatile cache (`drive.rs`), which this process serves. At a drawn moment
//! the power goes: the server is killed, what the kernel would still have written is dropped, shared memory is gone, and of the
//! writes that no flush covered the disk keeps a drawn part. The ext4 is mounted again, the server started, and everything that was
//! acknowledged compared (`bank.rs`, `definitions.rs`). Cuts come under load with checkpoints, definitions and backups, while the server
//! opens what an earlier cut left, and right after it opened what a kill left.
//!
//! # Oracles
//! - Those of the bank (O1 to O5, without a ring) and of definitions (D1 to D3).
//! - W1. What was found after a cut is there after the next one: what nobody was answered too, since it was shown.
//! - W2. A backup that was answered before the cut is whole, and holds everything that was there before it began.
//!
//! The seed fixes what is tried, not how it meets. It needs root, FUSE, loop devices and ext4, and says so where they are missing.

mod drive;
mod image;
mod served;

use std::{
    fmt,
    ops::ControlFlow,
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, anyhow, ensure};
use collie_engine::{RestoreTo, restore, verify_backup};
use collie_env::{Clock, Env, RealClock};
use postgres::{Config, NoTls};
use tempfile::TempDir;

use self::{drive::Moment, image::Image, served::ServedDrive};
use crate::{
    bank, checkpoints,
    definitions::Definitions,
    journal::{Journal, Outcome},
    mounts,
    random::Random,
    report::{Figures, Report},
    server::Server,
};

/// Of so many cuts one may leave a file system that the kernel refuses (the night has seen one in 560): more are a mistake of the drive.
const CUTS_PER_LOST_DISK: u64 = 100;

/// Cuts on one database.
const ROUND_CUTS: u64 = 25;

/// Of the disk.
const DISK_BYTES: usize = 384 << 20;

/// Clients of the bank at one time; every fourth commits asynchronously.
const CLIENTS: u64 = 6;

/// Client numbers of one cut start at a multiple of this.
const CLIENTS_PER_CUT: u64 = 1_000;

/// What to do.
pub(crate) struct Plan {
    pub(crate) cycles: u64,
    pub(crate) seed: u64,
    pub(crate) server: PathBuf,
    /// Where the file systems are mounted, and the evidence of a violation is left.
    pub(crate) dir: PathBuf,
    /// A mistake that the server makes; it is then this program.
    pub(crate) plant: Option<String>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cycles, seed, server, dir, plant } = self;
        write!(f, "powercut --cycles {cycles} --seed {seed} --server {} --dir {}", server.display(), dir.display())?;
        plant.iter().try_for_each(|mistake| write!(f, " --plant {mistake}"))
    }
}

/// What was done in all rounds.
#[derive(Debug, Default)]
struct Total {
    cuts: u64,
    /// Of them while a server opened.
    opening: u64,
    acknowledged: u64,
    /// Of asynchronous commits, as they may.
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
            let kept = dir.keep(); // the evidence stays: the disk as it was when the power came back, and what servers said
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

/// One database over its cuts.
struct Lives<'p> {
    plan: &'p Plan,
    disk: &'p mut ServedDrive,
    dir: &'p Path,
    random: &'p mut Random,
    total: &'p mut Total,
    /// The directory of rings, which lives as long as the power is on.
    rings: TempDir,
    journals: Vec<Journal>,
    definitions: Definitions,
    /// The name of a backup that was answered since it was looked for.
    backup: Option<String>,
    /// The disk as it was when the power came back.
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

    /// Draws settings: in half of all lives tables are flushed, and log that is not needed goes, as often as can be.
    fn settings(&mut self) -> anyhow::Result<Vec<String>> {
        let protocol = ["help", "oracle", "base"][usize::try_from(self.random.below(3))?];
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

    /// Cuts the power under load, and perhaps while the rest opens, and compares. Returns the server that opened; `None`: the kernel
    /// cannot mount the file system any more, of which the server knows nothing.
    fn cycle(&mut self, mut server: Server, end: u64) -> anyhow::Result<Option<Server>> {
        let before = self.journals.len();
        let load = Load::start(&server, self.total.cuts + 1, self.definitions.clone(), self.random);
        self.await_moment(Duration::from_millis(600));
        // What an opening shows that found it in the memory of the machine has to be on the disk by then (W1).
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
        // Recovery may be cut off anywhere, more than once.
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

    /// Takes note of what clients were told.
    fn hear(&mut self, load: Load) -> anyhow::Result<()> {
        let (journals, definitions, backup) = load.end()?;
        let answers = journals.iter().flat_map(|journal| &journal.outcomes);
        self.total.acknowledged += answers.filter(|outcome| **outcome == Outcome::Acknowledged).count() as u64;
        self.journals.extend(journals);
        self.total.definitions += definitions.answered - self.definitions.answered;
        (self.definitions, self.backup) = (definitions, backup);
        Ok(())
    }

    /// Compares what a server shows with what clients were told; from now on all of it is to stay (W1). The journals from `before` on are new.
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

    /// Waits for the moment of a cut, which is the experiment itself: one of time, or one between the calls that come to the disk, the first ones
    /// more often than later ones; then the disk stalls for some milliseconds, in which who was told too much may act on it.
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

    /// Returns whether the file system can be mounted.
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

    /// W2. `before` journals had ended when it began.
    fn verify_backup(&mut self, name: &str, before: usize) -> anyhow::Result<()> {
        let place = self.data().join("copies").join(name);
        let (env, go_on) = (Env::real(), || ControlFlow::Continue(()));
        let (_, faults) = verify_backup(&place, &env, &mut |_| go_on())?;
        ensure!(faults.is_empty(), "{} files are not as they were made", faults.len());
        let restored = self.dir.join("restored");
        restore(&place, &restored, RestoreTo::End, &env, &mut |_| go_on())?;
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

/// What runs on a server until the power goes.
struct Load {
    bank: Vec<JoinHandle<Journal>>,
    definitions: JoinHandle<anyhow::Result<Definitions>>,
    checkpoints: Option<JoinHandle<()>>,
    /// Ends with the name of a backup if one was answered.
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
        let backup = (random.below(5) == 0).then(|| back_up(config(), format!("b{cut}")));
        Self { bank, definitions, checkpoints, backup }
    }

    /// Waits until everything has noticed that the server is gone.
    fn end(self) -> anyhow::Result<(Vec<Journal>, Definitions, Option<String>)> {
        let panicked = |_| anyhow!("a client panicked");
        let journals = self.bank.into_iter().map(|thread| thread.join().map_err(panicked)).collect::<Result<_, _>>()?;
        let definitions = self.definitions.join().map_err(panicked)??;
        self.checkpoints.map_or(Ok(()), |thread| thread.join().map_err(panicked))?;
        let backup = self.backup.map_or(Ok(None), |thread| thread.join().map_err(panicked))?;
        Ok((journals, definitions, backup))
    }
}

fn back_up(config: Config, name: String) -> JoinHandle<Option<String>> {
    thread::spawn(move || {
        let mut client = config.connect(NoTls).ok()?;
        client.batch_execute(&format!("CALL collie_checkpoint('{name}', true)")).ok()?;
        Some(name)
    })
}
