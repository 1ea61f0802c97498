//! `Mirror`: several copies of a log directory as one directory to write: what is done to the log directory is done to
//! every live copy, at the same time.
//!
//! A call fails only when too few copies did it: then the log deals with it as with a failed file. Otherwise a copy that
//! failed, or took longer than `wal.copy_stall` when the others were done, is left out: it counts no more, an alarm says
//! so, and the flight writes that into the next segment before anything more is acknowledged (`Course::settle`).
//!
//! # Invariants
//! - I1. A call that returned success was done by every live copy; a write or sync of the flight under
//!   `wal.copies_required = quorum` by a majority of the configured ones, and it is on its way in the others, in order.
//! - I2. A copy that was left out is not touched again but by its catch-up: what was on its way is dropped. So a copy
//!   holds a segment's first frame only if all before was synced in it.
//! - I3. Fewer than `wal.copies_min` copies, or fewer than a majority under `quorum`, never count as success.
//! - I4. Whatever changes who is live raises `change`; nothing is acknowledged before a LINK with the new number is
//!   durable in all that are live then.
//! - I5. A copy that comes back counts for I3 only once a LINK says so in all that were live before: else one of those
//!   could go missing later without knowing that it had been joined.
//! - I6. While the log is being opened a copy that fails, fails the opening.
//!
//! # States of a copy
//! live -> (failure, stall) -> down -> (caught up) -> joining -> (LINK durable) -> live; joining -> (failure) -> down.
//!
//! Checked by `mirror_tests`: each failing call, stalls, loss of all but one, power cuts while degraded and joining.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use collie_env::{Access, File, FileLock, Files, LockError};
use parking_lot::{Condvar, Mutex, RwLock};

use super::{lane::Lane, merge::CopyDir, repair::unmark};
use crate::{
    CopiesRequired, CopyStat, CopyState, Options, Warnings,
    format::{CopyCounts, segment_number},
};

/// Calls on their way in a copy that lags behind a majority; more, and it has stalled.
const LAG_MAX: usize = 64;

/// Who does a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The flight: its writes and syncs.
    Flight,
    /// Whoever makes, renames and removes files.
    Names,
}

/// What is kept about the rules, from the options.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) quorum: bool,
    pub(super) copies_min: usize,
    pub(super) stall: Duration,
    pub(super) threads: bool,
}

/// What changed since a catch-up last looked.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Names made, replaced or removed.
    pub(super) names: std::collections::BTreeSet<String>,
    /// Stretches written, by name: from, to.
    pub(super) writes: BTreeMap<String, (u64, u64)>,
}

/// One copy while the log runs.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) state: CopyState,
    /// Why it is down.
    pub(super) why: String,
    pub(super) lock: Option<Arc<dyn FileLock>>,
    lanes: Option<[Arc<Lane>; 2]>,
    /// What a catch-up on its way has not seen.
    pub(super) changes: Option<Changes>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) copies: Vec<Copy>,
    change: u32,
    /// The last change that a LINK says, durably.
    linked: u32,
    files: Vec<Weak<MirrorFile>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) files: Arc<dyn Files>,
    pub(super) home: PathBuf,
    /// All that are configured, in order.
    pub(super) dirs: Vec<PathBuf>,
    pub(super) rules: Rules,
    pub(super) warnings: Warnings,
    /// Whether the opening is over (I6).
    opened: AtomicBool,
    pub(super) state: Mutex<State>,
    /// A copy went down, or the log closes.
    pub(super) changed: Condvar,
    /// Held for reading while a call is done and noted, for writing while a copy joins.
    pub(super) gate: RwLock<()>,
    pub(super) stop: AtomicBool,
    watch: Mutex<Option<Lane>>,
}

/// Several directories, written as one; paths are those in the log directory. Clones are handles of the same one.
#[derive(Clone, Debug)]
pub(crate) struct Mirror(pub(super) Arc<Shared>);

/// The outcomes of one call in each copy.
struct Round<R> {
    outcomes: Mutex<Outcomes<R>>,
    arrived: Condvar,
}

struct Outcomes<R> {
    of: Vec<Option<io::Result<R>>>,
    /// Nobody waits any more: a failure that arrives now is a lagging copy's.
    closed: bool,
}

impl Mirror {
    /// Mirrors the log directory in the `usable` copies, which hold the same already; `dirs` are all that are configured,
    /// and `locks` are theirs where they could be locked.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(crate) fn new<'a>(
        files: Arc<dyn Files>,
        dirs: Vec<PathBuf>,
        locks: &[Option<Arc<dyn FileLock>>],
        usable: impl Iterator<Item = &'a CopyDir>,
        options: &Options,
    ) -> io::Result<Self> {
        let rules = Rules {
            // Fewer than a majority cannot hold a quorum: whoever opens with them runs with all that are live.
            quorum: options.copies_required == CopiesRequired::Quorum
                && options.open_with.is_none_or(|copies| copies as usize > dirs.len() / 2),
            copies_min: options.copies_min as usize,
            stall: options.copy_stall,
            threads: options.threads,
        };
        let away = |lock: &Option<Arc<dyn FileLock>>| Copy {
            state: CopyState::Down,
            why: "not there when the log was opened".to_owned(),
            lock: lock.clone(),
            lanes: None,
            changes: None,
        };
        let mut copies: Vec<Copy> = locks.iter().map(away).collect();
        for copy in usable {
            let slot = &mut copies[copy.index];
            slot.state = CopyState::Live;
            slot.why.clear();
            slot.start_lanes(copy.index, rules.threads)?;
        }
        Ok(Self(Arc::new(Shared {
            files,
            home: dirs[0].clone(),
            dirs,
            rules,
            warnings: options.warnings.clone(),
            opened: AtomicBool::new(false),
            state: Mutex::new(State { copies, change: 0, linked: 0, files: Vec::new() }),
            changed: Condvar::new(),
            gate: RwLock::new(()),
            stop: AtomicBool::new(false),
            watch: Mutex::new(None),
        })))
    }

    /// From here on a copy may fail without failing the log (I6).
    pub(crate) fn opened(&self) {
        self.0.opened.store(true, Ordering::Relaxed);
    }

    /// Returns whether the log says who is live (I4).
    pub(crate) fn is_settled(&self) -> bool {
        let state = self.0.state.lock();
        state.change == state.linked
    }

    /// Returns what a LINK says about the copies now.
    pub(crate) fn counts(&self) -> CopyCounts {
        self.0.counts(&self.0.state.lock())
    }

    /// Says that a LINK with these `counts` is durable in all copies that take part: who was joining is live (I5).
    pub(crate) fn confirm(&self, counts: CopyCounts) {
        let mut state = self.0.state.lock();
        if state.change != counts.change {
            return;
        }
        state.linked = counts.change;
        let mut joined = Vec::new();
        for (index, copy) in state.copies.iter_mut().enumerate() {
            if copy.state == CopyState::Joining {
                copy.state = CopyState::Live;
                if let Some(lanes) = &copy.lanes {
                    joined.push((index, lanes[1].clone()));
                }
            }
        }
        drop(state);
        for (index, lane) in joined {
            let shared = self.0.clone();
            lane.submit(Box::new(move || {
                if let Err(error) = unmark(&*shared.files, &shared.dirs[index]) {
                    shared.lose(index, &error.to_string());
                }
            }));
            let dir = self.0.dirs[index].display();
            self.0.warnings.say(&format!("wal: the copy in {dir} is up to date again and counts"));
        }
    }

    /// Returns how each copy stands, and why it is down if it is.
    pub(crate) fn standing(&self) -> Vec<CopyStat> {
        let state = self.0.state.lock();
        let stat =
            |(dir, copy): (&PathBuf, &Copy)| CopyStat { dir: dir.clone(), state: copy.state, why: copy.why.clone() };
        self.0.dirs.iter().zip(&state.copies).map(stat).collect()
    }

    /// Starts the thread that brings copies back; `settle` has the flight write down that one joined.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start_watch(&self, settle: impl Fn() + Send + 'static) -> io::Result<()> {
        let lane = Lane::start("wal-copies", None)?;
        let mirror = self.clone();
        lane.submit(Box::new(move || {
            while mirror.watch() {
                mirror.catch_up();
                settle();
            }
        }));
        *self.0.watch.lock() = Some(lane);
        Ok(())
    }

    /// Ends the threads. A copy that hangs is left behind, with its lock (`lane` N2).
    pub(crate) fn stop(&self) {
        {
            let _state = self.0.state.lock();
            self.0.stop.store(true, Ordering::Relaxed);
            self.0.changed.notify_all();
        }
        if let Some(watch) = self.0.watch.lock().take() {
            watch.stop(self.0.rules.stall);
        }
        let lanes: Vec<Arc<Lane>> = {
            let mut state = self.0.state.lock();
            state.copies.iter_mut().for_each(|copy| copy.lock = None);
            state.copies.iter_mut().filter_map(|copy| copy.lanes.take()).flatten().collect()
        };
        lanes.iter().for_each(|lane| lane.stop(self.0.rules.stall));
    }
}

impl Copy {
    pub(super) fn start_lanes(&mut self, index: usize, threads: bool) -> io::Result<()> {
        if self.lanes.is_none() {
            let lane = |name: &str| match threads {
                true => Lane::start(&format!("wal-{name}-{index}"), self.lock.clone()),
                false => Ok(Lane::inline()),
            };
            self.lanes = Some([Arc::new(lane("copy")?), Arc::new(lane("names")?)]);
        }
        Ok(())
    }

    /// Returns whether nothing is on its way in it.
    pub(super) fn is_idle(&self) -> bool {
        self.lanes.iter().flatten().all(|lane| lane.waiting() == 0)
    }

    fn takes_part(&self) -> bool {
        self.state != CopyState::Down
    }
}

impl State {
    pub(super) fn live(&self) -> Vec<usize> {
        let live = |(index, copy): (usize, &Copy)| (copy.state == CopyState::Live).then_some(index);
        self.copies.iter().enumerate().filter_map(live).collect()
    }

    pub(super) fn reference(&self) -> Option<usize> {
        self.copies.iter().position(|copy| copy.state == CopyState::Live)
    }

    /// Returns the files that are open for writing.
    pub(super) fn open_files(&self) -> Vec<Arc<MirrorFile>> {
        self.files.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Shared {
    /// Returns for each copy how many of the flight's calls are done, if one is on its way.
    pub(super) fn moves(&self) -> Vec<Option<u64>> {
        let state = self.state.lock();
        let part = |copy: &Copy| copy.lanes.as_ref().filter(|_| copy.takes_part())?[0].moves();
        state.copies.iter().map(part).collect()
    }

    fn majority(&self) -> usize {
        self.dirs.len() / 2 + 1
    }

    /// Returns how many live copies must have done a call (I3).
    fn needed(&self) -> usize {
        if self.rules.quorum { self.majority().max(self.rules.copies_min) } else { self.rules.copies_min }
    }

    fn counts(&self, state: &State) -> CopyCounts {
        let count = |n: usize| u16::try_from(n).expect("options bound the copies");
        let live = state.copies.iter().filter(|copy| copy.takes_part()).count();
        let required = if self.rules.quorum { self.majority() } else { live };
        let (required, configured) = (count(required), count(self.dirs.len()));
        CopyCounts { required, configured, quorum: self.rules.quorum, change: state.change }
    }

    /// Leaves a copy out (I2, I4).
    pub(super) fn lose(&self, index: usize, why: &str) {
        let (left, counts) = {
            let mut state = self.state.lock();
            let copy = &mut state.copies[index];
            if copy.state == CopyState::Down {
                return;
            }
            (copy.state, copy.why) = (CopyState::Down, why.to_owned());
            state.change += 1;
            let left = state.copies.iter().filter(|copy| copy.state == CopyState::Live).count();
            (left, self.counts(&state))
        };
        self.warnings.say(&format!(
            "wal: the copy in {} is left out ({why}); {left} of {} copies go on",
            self.dirs[index].display(),
            counts.configured
        ));
        self.changed.notify_all();
    }

    /// Brings a copy that was caught up back in; it counts once [`Mirror::confirm`] says so.
    pub(super) fn join(&self, index: usize) {
        let mut state = self.state.lock();
        let copy = &mut state.copies[index];
        copy.state = CopyState::Joining;
        copy.why.clear();
        copy.changes = None;
        state.change += 1;
    }

    /// Waits until a live copy has done all that was given to it before: under a quorum it may lag behind what is durable.
    /// Returns whether it has, and still takes part.
    pub(super) fn has_all(&self, index: usize) -> bool {
        let lane = {
            let state = self.state.lock();
            let copy = &state.copies[index];
            if !self.rules.quorum || !copy.takes_part() {
                return copy.takes_part();
            }
            copy.lanes.as_ref().map(|lanes| lanes[0].clone())
        };
        lane.is_none_or(|lane| lane.drain(self.rules.stall)) && self.state.lock().copies[index].takes_part()
    }

    pub(super) fn path_in(&self, index: usize, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.home) {
            // Joining nothing would add a slash.
            Ok(rest) if rest.as_os_str().is_empty() => self.dirs[index].clone(),
            Ok(rest) => self.dirs[index].join(rest),
            Err(_) => path.to_owned(),
        }
    }

    /// Has `act` done in each copy that takes part and gives a job for it; returns the outcomes of those that did it.
    ///
    /// # Errors
    /// The first failure, when too few did it; who failed is not left out then: the caller deals with it.
    fn each<R: Send + 'static>(
        self: &Arc<Self>,
        by: By,
        mut job: impl FnMut(usize) -> Option<Box<dyn FnOnce() -> io::Result<R> + Send>>,
    ) -> io::Result<Vec<(usize, R)>> {
        let taking_part: Vec<(usize, bool, Arc<Lane>)> = {
            let state = self.state.lock();
            let part = state.copies.iter().enumerate().filter(|(_, copy)| copy.takes_part());
            part.filter_map(|(index, copy)| {
                // None once the log is closed.
                let lanes = copy.lanes.as_ref()?;
                Some((index, copy.state == CopyState::Live, lanes[usize::from(by == By::Names)].clone()))
            })
            .collect()
        };
        let jobs = taking_part.into_iter().filter_map(|(index, live, lane)| Some((index, live, lane, job(index)?)));
        let jobs: Vec<_> = jobs.collect();
        let round = Arc::new(Round {
            outcomes: Mutex::new(Outcomes { of: jobs.iter().map(|_| None).collect(), closed: false }),
            arrived: Condvar::new(),
        });
        let who: Vec<(usize, bool)> = jobs.iter().map(|(index, live, ..)| (*index, *live)).collect();
        for (at, (index, _, lane, job)) in jobs.into_iter().enumerate() {
            if lane.waiting() >= LAG_MAX {
                self.lose(index, "it lags behind the others");
            }
            let (shared, round) = (self.clone(), round.clone());
            lane.submit(Box::new(move || shared.run(index, at, &round, job)));
        }
        self.settle(by, &who, &round)
    }

    /// Does a job in one copy, on its lane.
    fn run<R>(&self, index: usize, at: usize, round: &Round<R>, job: Box<dyn FnOnce() -> io::Result<R> + Send>) {
        let down = self.state.lock().copies[index].state == CopyState::Down;
        let outcome = if down { Err(io::Error::other("this copy was left out")) } else { job() };
        let mut outcomes = round.outcomes.lock();
        match &outcome {
            // Before the lane takes its next job (I2).
            Err(error) if outcomes.closed => self.lose(index, &error.to_string()),
            Ok(_) if outcomes.closed => {}
            _ => {
                outcomes.of[at] = Some(outcome);
                round.arrived.notify_all();
            }
        }
    }

    /// Waits for the outcomes and decides.
    fn settle<R>(&self, by: By, who: &[(usize, bool)], round: &Round<R>) -> io::Result<Vec<(usize, R)>> {
        let strict = !self.opened.load(Ordering::Relaxed);
        let mut outcomes = round.outcomes.lock();
        let mut stalled = false;
        let enough = loop {
            let done = |at: &usize| matches!(outcomes.of[*at], Some(Ok(_)));
            let succeeded = (0..who.len()).filter(|at| who[*at].1 && done(at)).count();
            let pending = outcomes.of.iter().any(Option::is_none);
            let enough = succeeded >= self.needed();
            let early = self.rules.quorum && by == By::Flight && !strict;
            if !pending || (enough && (early || stalled)) {
                break enough;
            }
            // Below the minimum there is nothing to do but to wait, as a log without copies does.
            let patience = if enough && !strict { self.rules.stall } else { Duration::from_secs(3600) };
            stalled = round.arrived.wait_for(&mut outcomes, patience).timed_out() && enough;
        };
        outcomes.closed = true;
        let of = std::mem::take(&mut outcomes.of);
        drop(outcomes);
        let (mut succeeded, mut failed) = (Vec::new(), Vec::new());
        for ((index, live), outcome) in who.iter().zip(of) {
            match outcome {
                Some(Ok(done)) => succeeded.push((*index, done)),
                Some(Err(error)) => failed.push((*index, *live, error)),
                // On its way, and it may take its time.
                None if !stalled => {}
                None => {
                    let why = format!("it took longer than wal.copy_stall = {} ms", self.rules.stall.as_millis());
                    self.lose(*index, &why);
                }
            }
        }
        if strict && !failed.is_empty() {
            return Err(failed.swap_remove(0).2);
        }
        for (index, live, error) in &failed {
            if enough || !live {
                self.lose(*index, &error.to_string());
            }
        }
        match failed.into_iter().find(|_| !enough) {
            Some((_, _, error)) => Err(error),
            None if !enough => Err(io::Error::other("too few copies of the log are left")),
            None => Ok(succeeded),
        }
    }

    /// Notes a change for the catch-ups on their way.
    fn note(&self, act: impl Fn(&mut Changes)) {
        self.state.lock().copies.iter_mut().filter_map(|copy| copy.changes.as_mut()).for_each(act);
    }

    fn note_name(&self, path: &Path) {
        if let Some(name) = path.file_name() {
            let name = name.to_string_lossy();
            self.note(|changes| {
                changes.names.insert(name.clone().into_owned());
            });
        }
    }

    /// Does `act` with the path in each copy.
    fn each_path<R: Send + 'static>(
        self: &Arc<Self>,
        path: &Path,
        act: impl Fn(&dyn Files, &Path) -> io::Result<R> + Clone + Send + 'static,
    ) -> io::Result<Vec<(usize, R)>> {
        self.each(By::Names, |index| {
            let (files, path, act) = (self.files.clone(), self.path_in(index, path), act.clone());
            Some(Box::new(move || act(&*files, &path)))
        })
    }

    /// Gives a file to those copies that joined after it was made: it was being prepared then, or waits to be again.
    fn adopt_where_absent(self: &Arc<Self>, path: &Path) -> io::Result<()> {
        let found = self.each_path(path, |files, path| match files.open(path, Access::Read) {
            Err(error) if is_absent(&error) => Ok(false),
            opened => opened.map(|_| true),
        })?;
        let Some((from, _)) = found.iter().find(|(_, there)| *there) else { return Ok(()) };
        let source = self.path_in(*from, path);
        for (index, _) in found.iter().filter(|(_, there)| !there) {
            let copied = self.files.open(&source, Access::Read).and_then(|from| {
                super::repair::copy_file(&*from, &*self.files, &self.path_in(*index, path), from.len()?)
            });
            if let Err(error) = copied {
                self.lose(*index, &error.to_string());
            }
        }
        Ok(())
    }

    /// Follows a file to its new name, and opens it in the copies that got it with that.
    fn renamed(&self, from: &Path, to: &Path) {
        let (files, part) = {
            let state = self.state.lock();
            let part = state.copies.iter().enumerate().filter(|(_, copy)| copy.takes_part()).map(|(index, _)| index);
            (state.open_files(), part.collect::<Vec<usize>>())
        };
        for file in files.into_iter().filter(|file| *file.path.lock() == from) {
            *file.path.lock() = to.to_owned();
            for index in &part {
                let lacks = file.handles.lock()[*index].is_none();
                if let Err(error) = if lacks { file.open_in(*index) } else { Ok(()) } {
                    self.lose(*index, &error.to_string());
                }
            }
        }
    }
}

/// A file in every copy, for writing.
#[derive(Debug)]
pub(super) struct MirrorFile {
    mirror: Arc<Shared>,
    /// Its name in the log directory.
    path: Mutex<PathBuf>,
    /// By copy; none where it is not, yet or any more.
    handles: Mutex<Vec<Option<Arc<dyn File>>>>,
}

impl MirrorFile {
    fn register(mirror: &Arc<Shared>, path: &Path, opened: Vec<(usize, Arc<dyn File>)>) -> Arc<Self> {
        let mut handles = vec![None; mirror.dirs.len()];
        for (index, file) in opened {
            handles[index] = Some(file);
        }
        let path = Mutex::new(path.to_owned());
        let file = Arc::new(Self { mirror: mirror.clone(), path, handles: Mutex::new(handles) });
        let mut state = mirror.state.lock();
        state.files.retain(|file| file.strong_count() > 0);
        state.files.push(Arc::downgrade(&file));
        file
    }

    /// Does `act` in each copy that has the file: one that joined while it was being prepared gets it whole, with its
    /// name.
    fn each<R: Send + 'static>(
        &self,
        act: impl Fn(&dyn File) -> io::Result<R> + Clone + Send + 'static,
    ) -> io::Result<Vec<(usize, R)>> {
        let handles = self.handles.lock().clone();
        // A segment is the flight's; before it has its name it is being prepared.
        let by = if self.is_segment() { By::Flight } else { By::Names };
        self.mirror.each(by, |index| {
            let (file, act) = (handles[index].clone()?, act.clone());
            Some(Box::new(move || act(&*file)))
        })
    }

    fn name(&self) -> String {
        self.path.lock().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Opens the file in a copy that has it now.
    pub(super) fn open_in(&self, index: usize) -> io::Result<()> {
        let path = self.mirror.path_in(index, &self.path.lock());
        let file = self.mirror.files.open(&path, Access::ReadWrite)?;
        self.handles.lock()[index] = Some(file);
        Ok(())
    }

    /// Returns whether it carries a segment's name: others are being prepared.
    pub(super) fn is_segment(&self) -> bool {
        segment_number(&self.name()).is_some()
    }

    fn first(&self) -> io::Result<Arc<dyn File>> {
        let reference = self.mirror.state.lock().reference();
        let handles = self.handles.lock();
        let file = reference.and_then(|index| handles[index].clone());
        file.or_else(|| handles.iter().flatten().next().cloned()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl File for MirrorFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.first()?.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _gate = self.mirror.gate.read();
        let held: Arc<[u8]> = bytes.into();
        let written = self.each(move |file| file.write_at(offset, &held));
        let (name, end) = (self.name(), offset + bytes.len() as u64);
        self.mirror.note(|changes| {
            let stretch = changes.writes.entry(name.clone()).or_insert((offset, end));
            *stretch = (stretch.0.min(offset), stretch.1.max(end));
        });
        written.map(drop)
    }

    fn sync_data(&self) -> io::Result<()> {
        let _gate = self.mirror.gate.read();
        self.each(|file| if mistake!("COPY_SYNC_SKIPPED") { Ok(()) } else { file.sync_data() }).map(drop)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let _gate = self.mirror.gate.read();
        let cut = self.each(move |file| file.set_len(bytes));
        self.mirror.note_name(&self.path.lock());
        cut.map(drop)
    }

    fn len(&self) -> io::Result<u64> {
        self.first()?.len()
    }
}

/// A file read from whichever live copy can.
#[derive(Debug)]
struct AnyFile {
    mirror: Arc<Shared>,
    path: PathBuf,
    current: Mutex<(usize, Arc<dyn File>)>,
}

impl AnyFile {
    fn open(mirror: &Arc<Shared>, path: &Path) -> io::Result<Self> {
        let current = Self::open_any(mirror, path, None)?;
        Ok(Self { mirror: mirror.clone(), path: path.to_owned(), current: Mutex::new(current) })
    }

    /// Opens the file in the first live copy that has it, but not in `except`.
    fn open_any(mirror: &Shared, path: &Path, except: Option<usize>) -> io::Result<(usize, Arc<dyn File>)> {
        let copies = mirror.state.lock().live();
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for index in copies.into_iter().filter(|index| Some(*index) != except) {
            if !mirror.has_all(index) {
                continue;
            }
            match mirror.files.open(&mirror.path_in(index, path), Access::Read) {
                Ok(file) => return Ok((index, file)),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

impl File for AnyFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let (index, file) = self.current.lock().clone();
        let lags = || Err(io::Error::other("this copy lags behind"));
        let read = if self.mirror.has_all(index) { file.read_at(offset, bytes) } else { lags() };
        let Err(error) = read else { return read };
        let Ok(other) = Self::open_any(&self.mirror, &self.path, Some(index)) else { return Err(error) };
        *self.current.lock() = other.clone();
        other.1.read_at(offset, bytes)
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn len(&self) -> io::Result<u64> {
        let file = self.current.lock().1.clone();
        file.len()
    }
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

impl Files for Mirror {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.each_path(dir, |files, dir| files.create_dir_all(dir)).map(drop)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let _gate = self.0.gate.read();
        let opened = self.0.each_path(path, |files, path| files.create(path))?;
        self.0.note_name(path);
        Ok(MirrorFile::register(&self.0, path, opened))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        if access == Access::Read {
            return Ok(Arc::new(AnyFile::open(&self.0, path)?));
        }
        let _gate = self.0.gate.read();
        self.0.adopt_where_absent(path)?;
        let opened = self.0.each_path(path, |files, path| files.open(path, Access::ReadWrite))?;
        Ok(MirrorFile::register(&self.0, path, opened))
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _gate = self.0.gate.read();
        self.0.adopt_where_absent(from)?;
        let name = to.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let replaced = self.0.each_path(from, move |files, from| files.replace(from, &from.with_file_name(&name)));
        self.0.note_name(from);
        self.0.note_name(to);
        self.0.renamed(from, to);
        replaced.map(drop)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let _gate = self.0.gate.read();
        let removed = self.0.each_path(path, |files, path| match files.remove(path) {
            Err(error) if is_absent(&error) => Ok(false),
            removed => removed.map(|()| true),
        })?;
        self.0.note_name(path);
        if removed.iter().any(|(_, was_there)| *was_there) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let copies = self.0.state.lock().live();
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for index in copies {
            match self.0.files.list(&self.0.path_in(index, dir)) {
                Ok(names) => return Ok(names),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let _gate = self.0.gate.read();
        self.0.each_path(dir, |files, dir| files.sync_dir(dir)).map(drop)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        self.0.files.lock(path)
    }
}
