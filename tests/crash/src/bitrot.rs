//! `bitrot`: rot in each kind of file of a database, under a stopped and a running server, and in a backup.
//!
//! Databases are made once (`template.rs`); a journal of what their clients were answered lives in this process. Each cycle damages one
//! file of a copy of one (`damage.rs`): a bit is flipped, 4 KiB are zeros, or the file is as it was earlier. Then it is judged what the
//! program makes of that (`judge.rs`).
//!
//! # Oracles
//! - R1. Reported or harmless: a start is refused in a line, or every row that was acknowledged is there, in this life and the next. Only
//!   where a line says that an unfinished end of the log was dropped may the last commit be missing, whole: rot of the last frame cannot
//!   be told from that.
//! - R2. What is refused in a line that names levels opens read-only under `skip_any_corrupted_records`, with every row of a table that no
//!   line names.
//! - R3. A running server of which a file of the levels rots: a backup of it is made, or refused in a line that names the file; what is
//!   made verifies, restores and has every row; and the server, stopped in order, starts again with every row.
//! - R4. A backup with a damaged file is found by `backup verify`, which names it, and refused by `restore`, which makes nothing.
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

/// What to do.
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

/// Small files and many flushes, so that there is something of every kind.
const SETTINGS: [&str; 6] = [
    "store.write_buffer_size=16KiB",
    "wal.ring_size=256KiB",
    "wal.ring=private",
    "wal.flush_bytes=64KiB",
    "wal.segment_size=9MiB",
    "wal.max_total_wal_size=1",
];

/// What came of the damage to one kind of file.
#[derive(Clone, Copy, Default)]
struct Tally {
    damaged: u64,
    /// A start or a backup was refused, or `backup verify` found it.
    refused: u64,
    /// The running server found it.
    mended: u64,
}

/// What came of the cycles.
#[derive(Default)]
struct Counts {
    by_kind: BTreeMap<Kind, Tally>,
    /// Openings with what is whole.
    salvaged: u64,
    /// Last commits that an unfinished end of the log took, with a line.
    trimmed: u64,
}

struct Lab<'p> {
    plan: &'p Plan,
    dir: PathBuf,
    random: Random,
    counts: Counts,
    /// Clients have numbers of their own over all cycles.
    clients: u64,
}

/// What a command of the program says when it refuses.
type Refused = String;

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    let dir = tempfile::Builder::new().prefix("collie-bitrot-").tempdir()?;
    let random = Random::new(plan.seed);
    let mut lab = Lab { plan, dir: dir.path().to_owned(), random, counts: Counts::default(), clients: 0 };
    if let Err(error) = lab.cycles() {
        // The evidence stays.
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

    /// Returns where the servers make copies.
    fn copies(&self) -> PathBuf {
        self.dir.join("copies")
    }

    /// Has a server make a backup; returns where it is.
    fn backup(&self, name: &str, server: &Server) -> anyhow::Result<Result<PathBuf, Refused>> {
        let made = self.copies().join(name);
        let _none = fs::remove_dir_all(&made);
        let url = format!("postgresql://collie@127.0.0.1:{}/collie", server.port());
        Ok(self.collie(&["backup", name, "--url", &url])?.map(|_said| made))
    }

    /// Restores a backup; returns where to.
    fn restore(&self, backup: &Path) -> anyhow::Result<Result<PathBuf, Refused>> {
        let restored = self.dir.join("restored");
        let _none = fs::remove_dir_all(&restored);
        let said = self.collie(&["restore", &backup.display().to_string(), &restored.display().to_string()])?;
        ensure!(said.is_ok() == restored.exists(), "a restore was refused and has made something: {said:?}");
        Ok(said.map(|_said| restored))
    }

    /// Runs a command of the program; returns all that it said, as an error if it did not go well.
    fn collie(&self, arguments: &[&str]) -> anyhow::Result<Result<String, Refused>> {
        let output = Command::new(&self.plan.server).args(arguments).output().context("cannot run collie")?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        ensure!(!said.contains("panicked at"), "R5: collie {}: {said}", arguments.join(" "));
        Ok(if output.status.success() { Ok(said) } else { Err(said) })
    }

    /// Returns what the servers over a directory have said.
    fn said(&self, data: &Path) -> anyhow::Result<String> {
        let said = fs::read_to_string(said_of(data))?;
        ensure!(!said.contains("panicked at"), "R5: {said}");
        Ok(said)
    }

    fn tally(&mut self, kind: Kind) -> &mut Tally {
        self.counts.by_kind.entry(kind).or_default()
    }
}
