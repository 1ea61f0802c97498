//! `Peer`: RocksDB's db_bench with the same settings, in the same run.
//!
//! # Invariants
//! - D1. A benchmark finds the state that the same list leaves in Collie. `recover` is a process of its own: a start of
//!   db_bench with the database that exists.
//! - D2. Every figure is found or the run fails: a missing line is not ignored.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use collie_env::Clock;

use super::load::Load;
use super::peer_text::{PeerLine, lines};
use super::workload::Workload;

/// Time between two checks whether the process has ended.
const LOOK: Duration = Duration::from_millis(2);
/// Time limit of one process, since with a log limit of a few bytes it can take very long.
const LIMIT: Duration = Duration::from_secs(120);

/// The program, and the directory of its database.
#[derive(Debug)]
pub(super) struct Peer {
    program: PathBuf,
    db: PathBuf,
    clock: Arc<dyn Clock>,
}

/// Returns the names for `--benchmarks`. `stats` follows each benchmark that wrote and the ones after it that did not
/// write.
fn names(benchmarks: &[Workload]) -> String {
    let (mut names, mut wrote) = (Vec::new(), false);
    for one in benchmarks {
        if one.writes() && std::mem::replace(&mut wrote, true) {
            names.push("stats");
        }
        names.push(one.name());
    }
    names.extend(wrote.then_some("stats"));
    names.join(",")
}

/// Returns whether db_bench reports a figure for a benchmark.
const fn tells(one: Workload) -> bool {
    !matches!(one, Workload::Flush)
}

impl Peer {
    pub(super) fn new(program: &Path, db: &Path, clock: &Arc<dyn Clock>) -> Self {
        Self { program: program.to_owned(), db: db.to_owned(), clock: Arc::clone(clock) }
    }

    /// Runs the benchmarks of `load` once with a new database; returns a line for each that db_bench reports, by its
    /// place.
    ///
    /// # Errors
    /// If the program does not exist, fails, or takes too long.
    pub(super) fn run(&self, load: &Load) -> anyhow::Result<Vec<Option<PeerLine>>> {
        let mut all = Vec::new();
        for group in load.benchmarks.chunk_by(|_, next| *next != Workload::Recover) {
            let keep = (!all.is_empty()).then_some("--use_existing_db=1");
            let began_ns = self.clock.now_ns();
            if group == [Workload::Recover] {
                self.process(load, "levelstats", keep)?;
                all.push(Some(recovered(self.clock.now_ns() - began_ns)));
                continue;
            }
            let found = lines(&self.process(load, &names(group), keep)?);
            let wanted = group.iter().filter(|one| tells(**one));
            let (told, wanted) = (found.iter().map(|line| &line.name[..]), wanted.map(|one| one.name()));
            anyhow::ensure!(
                told.clone().eq(wanted.clone()),
                "{} told of {} and was asked for {}",
                self.program.display(),
                told.collect::<Vec<_>>().join(","),
                wanted.collect::<Vec<_>>().join(",")
            ); // D2
            let mut found = found.into_iter();
            all.extend(group.iter().map(|one| if tells(*one) { found.next() } else { None }));
        }
        super::ours::remove(&self.db)?;
        Ok(all)
    }

    /// Returns the program's description of itself: its version, and what slows it down.
    ///
    /// # Errors
    /// Those of [`Peer::run`].
    pub(super) fn describe(&self) -> anyhow::Result<String> {
        let text = self.process(&Load::new(&[], 1, 1), "levelstats", None)?;
        let version =
            text.lines().find_map(|line| line.split_once("version")).map_or("", |(_, version)| version.trim());
        let slowed = text.lines().find(|line| line.starts_with("WARNING:")).unwrap_or_default();
        Ok(format!("RocksDB {version} {slowed}").trim_end().to_owned())
    }

    fn process(&self, load: &Load, benchmarks: &str, keep: Option<&str>) -> anyhow::Result<String> {
        let parent = self.db.parent().unwrap_or(Path::new("."));
        let [out, err] = ["rocksdb.out", "rocksdb.err"].map(|name| parent.join(name));
        let make = |path: &Path| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        let mut command = Command::new(&self.program);
        command.arg(format!("--benchmarks={benchmarks}")).arg(format!("--db={}", self.db.display()));
        command.args(load.for_peer()).args(keep).stdin(Stdio::null());
        let status = self.wait(command.stdout(make(&out)?).stderr(make(&err)?))?;
        let read = |path: &Path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let (text, errors) = (read(&out)?, read(&err)?);
        for path in [out, err] {
            // Best effort: the next process overwrites it.
            let _best_effort = std::fs::remove_file(path);
        }
        let last = |text: &str| text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
        anyhow::ensure!(
            status.success(),
            "{} failed: {}; {}",
            self.program.display(),
            last(errors.rsplit('\r').next().unwrap_or_default()),
            last(&text)
        );
        Ok(format!("{errors}\n{text}"))
    }

    /// Runs the program until it ends or reaches the time limit.
    fn wait(&self, command: &mut Command) -> anyhow::Result<ExitStatus> {
        let mut child = command.spawn().with_context(|| {
            format!(
                "cannot run {}: install the package rocksdb-tools, or name it by --peer=PATH",
                self.program.display()
            )
        })?;
        let began_ns = self.clock.now_ns();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if Duration::from_nanos(self.clock.now_ns() - began_ns) > LIMIT {
                child.kill()?;
                child.wait()?;
                anyhow::bail!("{} did not end within {} s", self.program.display(), LIMIT.as_secs());
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Returns the line for a start.
fn recovered(took_ns: u64) -> PeerLine {
    let operations_per_second = crate::measures::per_s(1, took_ns);
    PeerLine { name: Workload::Recover.name().to_owned(), operations_per_second, ..PeerLine::default() }
}
