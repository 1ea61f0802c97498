//! [`Rehearsal`]: decisions over a simulated server, a second at a time: the effect of a change is known, the disk
//! loses power or fills, replicas fall behind, and the clock jumps.
//!
//! The decider, the journal and the rules are those of a server ([`Decider`]); settings, seconds and models are
//! simulated ([`World`](super::world)).

use std::{io, path::Path, sync::Arc};

use collie_env::{CrashPoint, Env, Fault, SimFiles, SimRandom};
use collie_train::decision::{Mode, Verdict};
use parking_lot::Mutex;

use super::{
    decider::{Decider, Parts},
    hands::Hands,
    journal_file::JournalFile,
    world::{DIR, Models, World},
};

/// The time at which one begins, in seconds since 1970: late enough for clocks that are set back by years.
const BEGUN_S: u64 = 1_700_000_000;

/// A disk, a server, and its decider. Nothing is kept outside of memory, and nothing waits.
#[derive(Debug)]
pub struct Rehearsal {
    pub(super) disk: SimFiles,
    pub(super) world: World,
    pub(super) decider: Decider,
    pub(super) now_s: u64,
    /// Crash points, recorded before each sync since they were last taken.
    points: Arc<Mutex<Vec<CrashPoint>>>,
}

impl Rehearsal {
    /// Begins with a server on which a flush delay twice as long has the gain `worth` (0.1: a tenth more throughput),
    /// and models that predict `promised`. Their proposals are tried, watched and kept.
    ///
    /// # Errors
    /// None for a new disk.
    pub fn begin(seed: u64, worth: f64, promised: f64) -> io::Result<Self> {
        let disk = SimFiles::new();
        let world = World::new(disk.clone(), seed, worth);
        Env::over(disk.clone(), seed).files.create_dir_all(Path::new(DIR))?;
        Self::over(disk, world, seed, Arc::default(), Mode::Canary, promised, BEGUN_S)
    }

    /// Opens the directory on `disk`.
    pub(super) fn over(
        disk: SimFiles,
        world: World,
        seed: u64,
        hands: Arc<Hands>,
        mode: Mode,
        promised: f64,
        now_s: u64,
    ) -> io::Result<Self> {
        let (journal, told) = JournalFile::open(Env::over(disk.clone(), seed), Path::new(DIR))?;
        world.ensure(told.is_none(), || format!("the journal is damaged: {told:?}"));
        let (knobs, gauge) = (Arc::new(world.clone()), Box::new(world.clone()));
        let parts = Parts { knobs, gauge, predictor: Arc::new(Models::promise(promised)), hands, journal };
        let decider = Decider::new(parts, mode, now_s);
        let points = Arc::<Mutex<Vec<CrashPoint>>>::default();
        let noted = points.clone();
        disk.watch(move |point| noted.lock().push(point));
        Ok(Self { disk, world, decider, now_s, points })
    }

    /// Lets a second pass.
    pub fn second(&mut self) {
        self.now_s = self.now_s.saturating_add(1);
        self.decider.tick(self.now_s);
        self.world.ensure(self.world.changed() <= 1, || "RT9: two changes at a time".to_owned());
    }

    /// Lets the clock jump, as when a user sets it.
    pub fn move_clock(&mut self, seconds: i64) {
        self.now_s = self.now_s.saturating_add_signed(seconds);
    }

    /// Sets the gain of a flush delay twice as long from now on.
    pub fn set_worth(&mut self, worth: f64) {
        self.world.0.lock().effect = worth;
    }

    /// Sets whether replicas hold the required delay from now on.
    pub fn set_delay_held(&mut self, is_held: bool) {
        self.world.0.lock().is_delay_held = is_held;
    }

    /// Makes the `call`-th of the next calls that change the disk fail (1 is the next).
    pub fn fail_call(&self, call: u64, fault: Fault) {
        self.disk.fail_call(self.disk.calls() + call, fault);
    }

    /// Makes the disk full, or ends that.
    pub fn set_full(&self, is_full: bool) {
        self.disk.set_capacity(is_full.then(|| self.disk.used_bytes()));
    }

    /// Returns how many calls have changed the disk, or tried to.
    pub fn calls(&self) -> u64 {
        self.disk.calls()
    }

    /// Returns the verdict of every row of the journal, oldest first: a change has one for each step.
    pub fn verdicts(&self) -> Vec<Verdict> {
        self.decider.entries().iter().map(|entry| entry.row.verdict).collect()
    }

    /// Returns the newest verdict.
    pub fn verdict(&self) -> Option<Verdict> {
        self.decider.entries().last().map(|entry| entry.row.verdict)
    }

    /// Returns whether a change is in flight.
    pub fn is_busy(&self) -> bool {
        self.decider.is_busy()
    }

    /// Returns whether a value is in force that is not the configured one.
    pub fn is_changed(&self) -> bool {
        self.world.changed() > 0
    }

    /// Returns the crash points since the last call: before each sync, and now.
    pub fn crash_points(&self) -> Vec<CrashPoint> {
        let mut points = std::mem::take(&mut *self.points.lock());
        points.push(self.disk.crash_point());
        points
    }

    /// Returns the rehearsal after a power cut at `point`, where `seed` chooses the surviving unsynced data: with the
    /// configured settings, models that predict no gain, and the clock moved by `clock_s` seconds.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn after(&self, point: &CrashPoint, seed: u64, clock_s: i64) -> io::Result<Self> {
        let disk = point.state(&point.drawn(&SimRandom::new(seed)));
        let world = World::new(disk.clone(), seed, 0.0);
        let now_s = self.now_s.saturating_add(1).saturating_add_signed(clock_s);
        Self::over(disk, world, seed, Arc::default(), Mode::Canary, 0.0, now_s)
    }

    /// Returns violated rules: a value without its row (C1), two changes at a time, a journal that cannot be read.
    pub fn violations(&self) -> Vec<String> {
        self.world.0.lock().violations.clone()
    }
}
