//! In-flight flushes in parallel: writes and syncs that end in any order, some of them failing, over every power cut.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread::ThreadId,
    time::Duration,
};

use collie_base::Map;
use collie_env::{Access, CrashPoint, Env, Fault, File, FileLock, Files, Limits, LockError, SimFiles};
use parking_lot::{Condvar, Mutex};

use crate::{
    Level, Log, Lsn, Options, WalError,
    testing::{eventually, tiny},
};

const DIR: &str = "/wal";

/// Holds each write and sync of a segment until the test releases it.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    closed: bool,
    /// The threads that wait, with their calls.
    waiting: Vec<(ThreadId, u64)>,
    calls: u64,
    let_go: Vec<u64>,
}

impl Gate {
    fn pass(&self) {
        let (mut state, me) = (self.state.lock(), std::thread::current().id());
        if !state.closed {
            return;
        }
        state.calls += 1;
        let call = state.calls;
        state.waiting.push((me, call));
        self.moved.notify_all();
        while state.closed && !state.let_go.contains(&call) {
            self.moved.wait(&mut state);
        }
        state.waiting.retain(|(_, other)| *other != call);
        self.moved.notify_all();
    }

    fn set_closed(&self, closed: bool) {
        self.state.lock().closed = closed;
        self.moved.notify_all();
    }

    fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// Releases the call of `thread` once it is there. Returns `false` if it does not come within a moment: it may be
    /// waiting for another in-flight flush, and the schedule continues without it.
    fn let_go(&self, thread: ThreadId) -> bool {
        let mut state = self.state.lock();
        loop {
            let waits = state.waiting.iter().find(|(other, _)| *other == thread);
            if let Some((_, call)) = waits.copied() {
                state.let_go.push(call);
                self.moved.notify_all();
                while state.waiting.contains(&(thread, call)) {
                    self.moved.wait(&mut state);
                }
                return true;
            }
            if self.moved.wait_for(&mut state, Duration::from_millis(20)).timed_out() {
                return false;
            }
        }
    }
}

/// The simulated disk behind a gate. With `shared` every opener of a file gets the same description.
#[derive(Debug)]
struct GatedFiles {
    disk: SimFiles,
    gate: Arc<Gate>,
    shared: Option<Mutex<Map<PathBuf, Arc<dyn File>>>>,
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl File for GatedFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.gate.pass();
        self.file.write_at(offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync_data()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl GatedFiles {
    fn gated(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        let file = Arc::new(GatedFile { file, gate: self.gate.clone() });
        if let Some(shared) = &self.shared {
            shared.lock().insert(path.to_owned(), file.clone());
        }
        file
    }
}

impl Files for GatedFiles {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.gated(path, self.disk.create(path)?))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        if access == Access::Read {
            return self.disk.open(path, access);
        }
        if let Some(file) = self.shared.as_ref().and_then(|shared| shared.lock().get(path).cloned()) {
            return Ok(file);
        }
        Ok(self.gated(path, self.disk.open(path, access)?))
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.replace(from, to)?;
        if let Some(shared) = &self.shared {
            let mut shared = shared.lock();
            let moved = shared.remove(from);
            shared.extend(moved.map(|file| (to.to_owned(), file)));
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        self.disk.lock(path)
    }
}

/// Opens a log over `disk` behind a gate that is open.
fn gated(disk: &SimFiles, flights: u32, share_descriptions: bool) -> (Log, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let shared = share_descriptions.then(Mutex::default);
    let mut env = Env::over(disk.clone(), 1);
    env.files = Arc::new(GatedFiles { disk: disk.clone(), gate: gate.clone(), shared });
    let (log, _) = Log::open(&env, DIR.as_ref(), Options { flights, ..tiny() }).unwrap();
    log.tick().unwrap();
    log.tick().unwrap();
    (log, gate)
}

/// Opens every state that a power cut may leave and checks that all records below `durable` are there, in order: bodies
/// are numbers from 0, one byte each.
fn check(point: &CrashPoint, durable: usize) -> Result<(), String> {
    let limits = Limits { exhaustive: 64, sampled: 4, structured: 8 };
    for picks in point.states(limits, 1) {
        let disk = point.state(&picks);
        let (log, _) = Log::open(&Env::over(disk, 2), DIR.as_ref(), tiny()).map_err(|error| error.to_string())?;
        let read: Result<Vec<_>, _> = log.read(Lsn::ZERO).map(|record| record.map(|record| record.body[0])).collect();
        let read = read.map_err(|error| error.to_string())?;
        let in_order = read.iter().enumerate().all(|(number, body)| usize::from(*body) == number);
        if !in_order || read.len() < durable {
            return Err(format!("{read:?} is back, {durable} were durable; kept: {}", point.describe(&picks)));
        }
    }
    Ok(())
}

/// All orders of the calls of two flushes, two calls each.
const ORDERS: [[usize; 4]; 6] = [[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 1, 0], [1, 1, 0, 0]];

/// Runs two flushes in parallel in the given order of their writes and syncs, where the `failing`-th of these calls
/// (from 1) fails, and checks every power cut after each of them. Returns whether both were in flight at the same time.
fn two_flights(order: [usize; 4], failing: u64, share_descriptions: bool) -> Result<bool, String> {
    let disk = SimFiles::new();
    let (log, gate) = gated(&disk, 2, share_descriptions);
    let mut ends = vec![log.writer().commit(0, &[0], Level::Disk).unwrap().end];
    if failing > 0 {
        disk.fail_write_or_sync(disk.writes_and_syncs() + failing, Fault::Eio);
    }
    gate.set_closed(true);
    let commits: Vec<_> = (1..3_u8)
        .map(|number| {
            let mut writer = log.writer();
            ends.push(writer.append(0, &[&[number]]).unwrap().end);
            let (log, end) = (log.clone(), ends[usize::from(number)]);
            let commit = std::thread::spawn(move || log.wait(crate::Mark::Durable, end));
            eventually("a flight", || gate.waiting() == usize::from(number) || commit.is_finished());
            commit
        })
        .collect();
    let side_by_side = gate.waiting() == 2;
    let mut outcome = Ok(());
    let mut look = || {
        let durable = log.durable();
        let point = disk.crash_point();
        let count = ends.iter().filter(|end| **end <= durable).count();
        outcome = std::mem::replace(&mut outcome, Ok(())).and_then(|()| check(&point, count));
    };
    for flight in order {
        let _not_there = gate.let_go(commits[flight].thread().id());
        look();
    }
    gate.set_closed(false);
    for commit in commits {
        match commit.join().unwrap() {
            Ok(()) => {}
            Err(error) => return Err(format!("one failing call is no reason to stop: {error}")),
        }
    }
    look();
    if log.durable() < *ends.last().unwrap() {
        return Err("both commits returned, and are not durable".to_owned());
    }
    log.abandon();
    outcome.map(|()| side_by_side)
}

/// Goal: two flushes whose writes and syncs end in any order make exactly the contiguous frames durable, also if one of
/// their calls fails once. Method: all orders of two writes and two syncs, each failure, and after each call the states
/// that a power cut may leave.
#[test]
fn two_flights_make_durable_what_is_contiguous_in_any_order() {
    for order in ORDERS {
        for failing in 0..=4 {
            let run = two_flights(order, failing, false);
            let side_by_side = run.unwrap_or_else(|error| panic!("{order:?}, call {failing} fails: {error}"));
            assert!(side_by_side, "the flights were not in the air together");
        }
    }
}

/// Goal: the test above can fail, and shows why each flush has its own file description (LOG-8): an error is reported
/// once per description, so that a sync through a shared one would count bytes as durable that another sync lost.
/// Method: the same with one description for all.
#[test]
fn sync_error_is_missed_by_flights_that_share_a_description() {
    let lost = ORDERS.into_iter().filter(|order| two_flights(*order, 3, true).is_err()).count();
    assert!(lost > 0, "no order notices");
}

/// Goal: committers beyond `wal.flights` wait for the next flush, which takes all of them; no more than `wal.flights`
/// are in flight. Method: threads against a closed gate; count calls at the gate, then frames.
#[test]
fn flights_are_as_many_as_they_may_be() {
    for flights in [1, 2, 4] {
        let disk = SimFiles::new();
        let (log, gate) = gated(&disk, flights, false);
        let frames = log.stat().frames;
        gate.set_closed(true);
        std::thread::scope(|scope| {
            for number in 1..=6_usize {
                let writer = log.writer();
                scope.spawn(move || { writer }.commit(0, &[1], Level::Disk).unwrap());
                let most = usize::try_from(flights).unwrap();
                let parked = number.saturating_sub(most);
                eventually("a flight, or a wait for the next", || {
                    gate.waiting() == number - parked && log.parked_threads() == parked
                });
            }
            gate.set_closed(false);
        });
        let flown = log.stat().frames - frames;
        assert_eq!(flown, u64::from(flights) + 1, "those who wait ride together");
    }
}

/// Goal: threads over several in-flight flushes on small files lose nothing acknowledged at any moment, while files are
/// turned and fail. Method: four threads commit while the test takes crash points; each has everything that was durable
/// just before. With and without failing calls.
#[test]
fn crash_points_of_threads_over_several_flights_have_all_that_was_durable() {
    for (round, flights) in [(0_u64, 2), (1, 2), (2, 3), (3, 8)] {
        let disk = SimFiles::new();
        let options = Options { flights, threads: true, ..tiny() };
        let (log, _) = Log::open(&Env::over(disk.clone(), round), DIR.as_ref(), options).unwrap();
        for failing in 0..round * 3 {
            disk.fail_write_or_sync(disk.writes_and_syncs() + 30 + 90 * failing, Fault::Eio);
        }
        let mut points = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u8)
                .map(|thread| {
                    let log = log.clone();
                    scope.spawn(move || {
                        let mut writer = log.writer();
                        let mut done = 0;
                        while done < 60 {
                            match writer.commit(thread, &[done; 300], Level::Disk) {
                                Ok(_) => done += 1,
                                // A spare could not be prepared; the log tries again.
                                Err(WalError::Full { .. }) => std::thread::yield_now(),
                                Err(error) => panic!("round {round}: {error}"),
                            }
                        }
                    })
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                let durable = log.durable();
                points.push((durable, disk.crash_point()));
                std::thread::yield_now();
            }
        });
        // Fewer calls may have been made than there were planned faults.
        disk.clear_faults();
        let every = points.len() / 40 + 1;
        for (durable, point) in points.iter().step_by(every) {
            let limits = Limits { exhaustive: 8, sampled: 4, structured: 4 };
            for picks in point.states(limits, round) {
                let env = Env::over(point.state(&picks), 2);
                let (log, found) = Log::open(&env, DIR.as_ref(), tiny()).unwrap_or_else(|error| panic!("{error}"));
                assert!(found.end >= *durable, "the log ends at {}, {durable} was durable", found.end);
                let mut next = [0; 4];
                for record in log.read(Lsn::ZERO) {
                    let record = record.unwrap();
                    let thread = usize::from(record.tag);
                    assert_eq!(record.body, [next[thread]; 300], "thread {thread}, in its order");
                    next[thread] += 1;
                }
            }
        }
        log.close().unwrap();
        let (log, _) = Log::open(&Env::over(disk, 3), DIR.as_ref(), tiny()).unwrap();
        assert_eq!(log.read(Lsn::ZERO).map(Result::unwrap).count(), 240);
    }
}
