//! The in-flight flush: a write and a sync of which one fails, over every power cut, and the commits that wait
//! meanwhile.

use std::{io, path::Path, sync::Arc};

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
    is_closed: bool,
    /// Calls that came, and those that may pass.
    came: u64,
    released: u64,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock();
        if !state.is_closed {
            return;
        }
        state.came += 1;
        let call = state.came;
        while state.is_closed && state.released < call {
            self.moved.wait(&mut state);
        }
    }

    fn set_closed(&self, is_closed: bool) {
        *self.state.lock() = GateState { is_closed, ..GateState::default() };
        self.moved.notify_all();
    }

    /// Returns the number of calls so far.
    fn came(&self) -> u64 {
        self.state.lock().came
    }

    /// Returns the number of calls that wait.
    fn waiting(&self) -> u64 {
        let state = self.state.lock();
        state.came - state.released
    }

    /// Releases the call that waits.
    fn release(&self) {
        self.state.lock().released += 1;
        self.moved.notify_all();
    }
}

/// The simulated disk behind a gate.
#[derive(Debug)]
struct GatedFiles {
    disk: SimFiles,
    gate: Arc<Gate>,
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
    fn gated(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(GatedFile { file, gate: self.gate.clone() })
    }
}

impl Files for GatedFiles {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.gated(self.disk.create(path)?))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, access)?;
        Ok(if access == Access::Read { file } else { self.gated(file) })
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.replace(from, to)
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
fn gated(disk: &SimFiles) -> (Log, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let mut env = Env::over(disk.clone(), 1);
    env.files = Arc::new(GatedFiles { disk: disk.clone(), gate: gate.clone() });
    let (log, _) = Log::open(&env, DIR.as_ref(), tiny()).unwrap();
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

/// Goal: LOG-8, LOG-9: a flush makes its records durable with its sync and not before, also if its write or its sync
/// fails once: then it writes them elsewhere. Method: two commits over a gate, each of whose calls waits; each call of
/// the second commit fails in turn; after every call the states that a power cut may leave.
#[test]
fn every_power_cut_around_a_failing_call_keeps_what_was_durable() {
    for failing in 0..=4 {
        let disk = SimFiles::new();
        let (log, gate) = gated(&disk);
        let mut ends = vec![log.writer().commit(0, &[0], Level::Disk).unwrap().end];
        if failing > 0 {
            disk.fail_write_or_sync(disk.writes_and_syncs() + failing, Fault::Eio);
        }
        let mut calls = 0;
        for number in 1..3_u8 {
            gate.set_closed(true);
            ends.push(log.writer().append(0, &[&[number]]).unwrap().end);
            let (handle, end) = (log.clone(), ends[usize::from(number)]);
            let commit = std::thread::spawn(move || handle.wait(crate::Mark::Durable, end));
            loop {
                eventually("a call", || gate.waiting() > 0 || commit.is_finished());
                let durable = log.durable();
                let count = ends.iter().filter(|end| **end <= durable).count();
                check(&disk.crash_point(), count).unwrap_or_else(|error| panic!("call {failing} fails: {error}"));
                if commit.is_finished() {
                    break;
                }
                calls += 1;
                let came = gate.came();
                gate.release();
                eventually("the next call, or the end", || gate.came() > came || commit.is_finished());
            }
            gate.set_closed(false);
            commit.join().unwrap().unwrap_or_else(|error| panic!("one failing call is no reason to stop: {error}"));
            assert!(log.durable() >= end);
        }
        assert!(calls >= if failing == 0 { 4 } else { 6 }, "{calls} calls, and call {failing} failed");
        assert_eq!(log.stat().rewrites, u64::from(failing > 0));
        log.abandon();
    }
}

/// Goal: W1, W3: committers that come while a flush is in flight wait for the next one, which takes all of them.
/// Method: six threads against a closed gate; count calls at the gate, then frames.
#[test]
fn commits_behind_the_flush_in_flight_share_the_next_one() {
    let disk = SimFiles::new();
    let (log, gate) = gated(&disk);
    let frames = log.stat().frames;
    gate.set_closed(true);
    std::thread::scope(|scope| {
        for number in 1..=6_usize {
            let writer = log.writer();
            scope.spawn(move || { writer }.commit(0, &[1], Level::Disk).unwrap());
            eventually("a flush, or a wait for the next", || gate.waiting() == 1 && log.parked_threads() == number - 1);
        }
        gate.set_closed(false);
    });
    assert_eq!(log.stat().frames - frames, 2, "one flush for the first, one for all others");
}

/// Goal: threads on small files lose nothing acknowledged at any moment, while files are turned and fail. Method: four
/// threads commit while the test takes crash points; each has everything that was durable just before. With and without
/// failing calls.
#[test]
fn crash_points_of_threads_have_all_that_was_durable() {
    for round in 0..4_u64 {
        let disk = SimFiles::new();
        let options = Options { threads: true, ..tiny() };
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
