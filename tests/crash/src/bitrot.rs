//! `bitrot`: rot in each kind of file of a database, under a stopped and a running server, and in a backup.
//!
//! The databases are made once (`template.rs`); this process keeps a journal of the answers to their clients. Each
//! cycle damages one file of a copy (`damage.rs`): it flips a bit, zeroes 4 KiB, or restores an earlier state of the
//! file. Then it judges how the program reacts (`judge.rs`).
//!
//! # Oracles
//! - R1. Damage is reported or harmless: a start is refused in a line, or every acknowledged row is there, in this run
//!   of the server and the next. Only if a line says that an unfinished flush at the end of the log was dropped may the
//!   last commit be missing, whole, since rot of the last frame looks the same.
//! - R2. A directory that is refused in a line about the LSM levels opens read-only under `skip_any_corrupted_records`,
//!   with every row of each table that no line names.
//! - R3. If a file of the LSM levels rots under a running server, a backup succeeds, or is refused in a line that names
//!   the file. A backup that succeeds verifies, restores and has every row; and the server, stopped in order, starts
//!   again with every row.
//! - R4. `backup verify` finds a backup with a damaged file and names the file; `restore` refuses the backup and
//!   creates nothing.
//! - R5. Nothing panics.

mod damage;
mod files;
mod judge;
mod template;

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

use crate::{
    random::Random,
    report::{Figures, Report},
    server::Server,
};
use files::{Kind, said_of};

/// The arguments of the command.
pub(crate) struct Plan {
    pub(crate) cycles: u64,
    pub(crate) seed: u64,
    pub(crate) server: PathBuf,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bitrot --cycles {} --seed {} --server {}", self.cycles, self.seed, self.server.display())
    }
}

/// Small files and many flushes, so that there are files of every kind.
const SETTINGS: [&str; 6] = [
    "store.write_buffer_size=16KiB",
    "wal.ring_size=256KiB",
    "wal.ring=private",
    "wal.flush_bytes=64KiB",
    "wal.segment_size=9MiB",
    "wal.max_total_wal_size=1",
];

/// The outcomes of damage to one kind of file.
#[derive(Clone, Copy, Default)]
struct Tally {
    damaged: u64,
    /// The program refused a start or a backup, or `backup verify` found the damage.
    refused: u64,
    /// The running server found and repaired the damage.
    mended: u64,
}

/// The outcomes of all cycles.
#[derive(Default)]
struct Counts {
    by_kind: BTreeMap<Kind, Tally>,
    /// Read-only openings with the undamaged tables.
    salvaged: u64,
    /// Last commits that were dropped with an unfinished end of the log, as a line said.
    trimmed: u64,
}

struct Lab<'p> {
    plan: &'p Plan,
    dir: PathBuf,
    random: Random,
    counts: Counts,
    /// The number of the last client; each has its own number over all cycles.
    clients: u64,
}

/// The output of a command that refused.
type Refused = String;

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    let dir = tempfile::Builder::new().prefix("collie-bitrot-").tempdir()?;
    let random = Random::new(plan.seed);
    let mut lab = Lab { plan, dir: dir.path().to_owned(), random, counts: Counts::default(), clients: 0 };
    if let Err(error) = lab.cycles() {
        // Keep the evidence.
        let kept = dir.keep();
        return Err(error.context(format!("data kept in {}", kept.display())));
    }
    let Counts { by_kind, salvaged, trimmed } = &lab.counts;
    let kinds: Vec<String> = by_kind
        .iter()
        .map(|(kind, Tally { damaged, refused, mended })| format!("{kind:?} {damaged}/{refused}/{mended}"))
        .collect();
    let words = format!(
        "bitrot: {} cycles; damaged/refused/mended: {}; {salvaged} openings of what is whole, {trimmed} last commits dropped with a \
         line: all oracles hold",
        plan.cycles,
        kinds.join(", ")
    );
    Ok(Report::new(words, Figures { cycles: plan.cycles, ..Figures::default() }))
}

impl Lab<'_> {
    fn cycles(&mut self) -> anyhow::Result<()> {
        let template = self.template().context("cannot make the database that is to be damaged")?;
        for cycle in 1..=self.plan.cycles {
            let outcome = match cycle % 4 {
                0 => self.backup_rots(&template),
                1 => self.running_server_rots(&template),
                _ => self.stopped_server_rots(&template),
            };
            outcome.with_context(|| format!("cycle {cycle}"))?;
        }
        Ok(())
    }

    fn start(&self, data: &Path, further: &[String]) -> anyhow::Result<Server> {
        let copies = format!("server.copy_dir={}", self.copies().display());
        let settings: Vec<String> = SETTINGS.map(str::to_owned).into_iter().chain([copies]).collect();
        Server::start_logged(&self.plan.server, &[], data, &[&settings, further].concat(), &said_of(data))
    }

    /// Returns the directory of the servers' copies.
    fn copies(&self) -> PathBuf {
        self.dir.join("copies")
    }

    /// Makes a server write a backup; returns the backup's path.
    fn backup(&self, name: &str, server: &Server) -> anyhow::Result<Result<PathBuf, Refused>> {
        let made = self.copies().join(name);
        let _none = fs::remove_dir_all(&made);
        let url = format!("postgresql://collie@127.0.0.1:{}/collie", server.port());
        Ok(self.collie(&["backup", name, "--url", &url])?.map(|_said| made))
    }

    /// Restores a backup; returns the path of the restored directory.
    fn restore(&self, backup: &Path) -> anyhow::Result<Result<PathBuf, Refused>> {
        let restored = self.dir.join("restored");
        let _none = fs::remove_dir_all(&restored);
        let said = self.collie(&["restore", &backup.display().to_string(), &restored.display().to_string()])?;
        ensure!(said.is_ok() == restored.exists(), "a restore was refused and has made something: {said:?}");
        Ok(said.map(|_said| restored))
    }

    /// Runs a command of the program; returns its output, as an error if the command failed.
    fn collie(&self, arguments: &[&str]) -> anyhow::Result<Result<String, Refused>> {
        let output = Command::new(&self.plan.server).args(arguments).output().context("cannot run collie")?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        ensure!(!said.contains("panicked at"), "R5: collie {}: {said}", arguments.join(" "));
        Ok(if output.status.success() { Ok(said) } else { Err(said) })
    }

    /// Returns the log of the servers that ran on a directory.
    fn said(&self, data: &Path) -> anyhow::Result<String> {
        let said = fs::read_to_string(said_of(data))?;
        ensure!(!said.contains("panicked at"), "R5: {said}");
        Ok(said)
    }

    fn tally(&mut self, kind: Kind) -> &mut Tally {
        self.counts.by_kind.entry(kind).or_default()
    }
}
