//! `Disturbance`: what is done to a pair, and for how long.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context as _;
use collie_env::File;
use postgres::Client;

use crate::replication::pair::Pair;
use crate::tpcc::sleep_until;
use crate::{Plan, Scratch};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disturbance {
    /// Nothing.
    Steady,
    /// More clients write on the primary, as fast as they can.
    Burst,
    /// One transaction that changes many rows commits on the primary.
    LongTransaction,
    /// Somebody overwrites large values on the primary, one transaction after the other.
    BulkWrite,
    /// Another process wants the replica's processor.
    Hog,
    /// Another process writes to the same disk and syncs, again and again.
    BusyDisk,
    /// The replica's process stands still.
    Stall,
}

impl Disturbance {
    /// All of them, in their order.
    pub(super) const ALL: [Self; 7] =
        [Self::Steady, Self::Burst, Self::LongTransaction, Self::BulkWrite, Self::Hog, Self::BusyDisk, Self::Stall];

    /// Returns its name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Burst => "burst",
            Self::LongTransaction => "long transaction",
            Self::BulkWrite => "bulk write",
            Self::Hog => "CPU hog",
            Self::BusyDisk => "busy disk",
            Self::Stall => "stalled replica",
        }
    }
}

/// Clients of a burst.
const BURST_CLIENTS: usize = 4;
/// Rows of a long transaction; in short runs.
const LONG_ROWS: u32 = 20_000;
const LONG_ROWS_SMALL: u32 = 500;
/// A value that is overwritten in bulk, and how many are in a transaction.
const BULK_BYTES: u32 = 1_000;
const BULK_ROWS: u32 = 500;
/// What is written to the disk before each sync.
const DISK_BYTES: usize = 4 << 20;

/// Who disturbs a pair: connections and files are there before anything is measured.
pub(super) struct Disturber<'a> {
    plan: &'a Plan,
    pair: &'a Pair,
    /// The replica's, where it has one of its own.
    core: Option<usize>,
    sessions: Vec<Client>,
    /// Where the disk is kept busy.
    file: Arc<dyn File>,
    /// Goes after it.
    _scratch: Scratch,
}

impl<'a> Disturber<'a> {
    /// Makes the tables that it writes to.
    ///
    /// # Errors
    /// The driver's, the file system's.
    pub(super) fn new(plan: &'a Plan, pair: &'a Pair, core: Option<usize>, small: bool) -> anyhow::Result<Self> {
        let rows = if small { LONG_ROWS_SMALL } else { LONG_ROWS };
        let mut sessions = (0..BURST_CLIENTS).map(|_| pair.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        sessions[0].batch_execute(&format!(
            "CREATE TABLE disturbed (id int PRIMARY KEY, n bigint NOT NULL); \
             INSERT INTO disturbed SELECT g, 0 FROM generate_series(1, {rows}) AS g; \
             CREATE TABLE bulk (id int PRIMARY KEY, value text NOT NULL); \
             INSERT INTO bulk SELECT g, repeat('x', {BULK_BYTES}) FROM generate_series(1, {BULK_ROWS}) AS g"
        ))?;
        let scratch = Scratch::new(&plan.env, &plan.dir)?;
        let file = plan.env.files.create(&scratch.path().join("busy"))?;
        Ok(Self { plan, pair, core, sessions, file, _scratch: scratch })
    }

    fn rest_until(&self, due_ns: u64) {
        sleep_until(&*self.plan.env.clock, due_ns);
    }

    fn is_before(&self, due_ns: u64) -> bool {
        self.plan.now_ns() < due_ns
    }

    /// Disturbs until `due_ns`, or until what is done once is done.
    ///
    /// # Errors
    /// The driver's, the operating system's.
    pub(super) fn disturb(&mut self, kind: Disturbance, due_ns: u64) -> anyhow::Result<()> {
        match kind {
            Disturbance::Steady => self.rest_until(due_ns),
            Disturbance::Burst => self.burst(due_ns)?,
            Disturbance::LongTransaction => self.sessions[0].batch_execute("UPDATE disturbed SET n = n + 1")?,
            Disturbance::BulkWrite => {
                let mut number = 0_u64;
                while self.is_before(due_ns) {
                    number += 1;
                    let filler = char::from(b'a' + u8::try_from(number % 26)?);
                    let text = format!("UPDATE bulk SET value = repeat('{filler}', {BULK_BYTES})");
                    self.sessions[0].batch_execute(&text)?;
                }
            }
            Disturbance::Hog => {
                let _hog = HogProcess::start(self.core)?;
                self.rest_until(due_ns);
            }
            Disturbance::BusyDisk => self.write_and_sync(due_ns)?,
            Disturbance::Stall => {
                let _stopped = Stopped::stop(self.pair.processes()?[1])?;
                self.rest_until(due_ns);
            }
        }
        Ok(())
    }

    fn burst(&mut self, due_ns: u64) -> anyhow::Result<()> {
        let (plan, failed) = (self.plan, AtomicBool::new(false));
        let write = |session: &mut Client, id: usize| -> anyhow::Result<()> {
            let update = session.prepare("UPDATE disturbed SET n = n + 1 WHERE id = $1")?;
            let id = i32::try_from(id + 1)?;
            while plan.now_ns() < due_ns && !failed.load(Relaxed) {
                session.execute(&update, &[&id])?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let clients = self.sessions.iter_mut().enumerate().map(|(id, session)| {
                let (write, failed) = (&write, &failed);
                scope.spawn(move || write(session, id).inspect_err(|_| failed.store(true, Relaxed)))
            });
            let clients: Vec<_> = clients.collect();
            clients.into_iter().try_for_each(|client| client.join().ok().context("a client panicked")?)
        })
    }

    fn write_and_sync(&self, due_ns: u64) -> anyhow::Result<()> {
        let bytes = vec![0x5A; DISK_BYTES];
        while self.is_before(due_ns) {
            self.file.write_at(0, &bytes)?;
            self.file.sync_data()?;
        }
        Ok(())
    }
}

/// A process that stands still until this goes (D3).
struct Stopped(u32);

fn signal(name: &str, process: u32) -> anyhow::Result<()> {
    let status = Command::new("kill").args([name, &process.to_string()]).status()?;
    anyhow::ensure!(status.success(), "kill {name} {process}: {status}");
    Ok(())
}

impl Stopped {
    fn stop(process: u32) -> anyhow::Result<Self> {
        signal("-STOP", process)?;
        Ok(Self(process))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It may be gone: then there is nothing to go on.
        let _gone = signal("-CONT", self.0);
    }
}

/// A process that only wants a processor, until this goes, or the benchmark does.
struct HogProcess(Child);

impl HogProcess {
    fn start(core: Option<usize>) -> anyhow::Result<Self> {
        let spin = ["sh", "-c", "while :; do :; done"];
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", "--"]);
        if let Some(core) = core {
            command.args(["taskset", "--cpu-list", &core.to_string()]);
        }
        let child = command.args(spin).stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("no setpriv")?;
        Ok(Self(child))
    }
}

impl Drop for HogProcess {
    fn drop(&mut self) {
        // It ends at nothing else.
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// How long a disturbance lasts, and how long is waited afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    pub(super) on: Duration,
    pub(super) after: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state of a process, as the kernel has it: R, S, T and so on; `None` of one that is gone.
    fn state(process: u32) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit(')').next()?.trim().chars().next()
    }

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        for _ in 0..3_000 {
            if is_so() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{what}");
    }

    /// Goal: D3, and that nothing is left running. Method: a hog, stopped, let go on by the end of a scope that failed, and ended.
    #[test]
    fn what_was_stopped_goes_on_and_a_hog_ends() {
        let hog = HogProcess::start(None).unwrap();
        let process = hog.0.id();
        until("the hog runs", || state(process) == Some('R'));
        let fail = || -> anyhow::Result<()> {
            let _stopped = Stopped::stop(process)?;
            until("it stands still", || state(process) == Some('T'));
            anyhow::bail!("something fails meanwhile")
        };
        assert!(fail().is_err());
        until("it goes on", || state(process) == Some('R'));
        drop(hog);
        assert_eq!(state(process), None);
        assert!(signal("-STOP", u32::MAX / 2).is_err(), "there is no such process");
    }
}
