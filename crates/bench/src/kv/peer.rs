//! `Peer`: RocksDB's db_bench, run with the same flags in the same run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::flags::KvFlags;

/// The program, and the directory of its database.
#[derive(Debug)]
pub(super) struct Peer {
    program: PathBuf,
    db: PathBuf,
}

/// What a line of db_bench says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PeerLine {
    pub(super) name: String,
    pub(super) operations_per_second: f64,
    /// The line as it stands.
    pub(super) text: String,
}

impl Peer {
    pub(super) fn new(program: &Path, db: &Path) -> Self {
        Self { program: program.to_owned(), db: db.to_owned() }
    }

    /// Runs the benchmarks once. Unless the flags say otherwise, without compression: rows are in memory here, and are
    /// compressed by neither then.
    ///
    /// # Errors
    /// When the program is not there or fails.
    pub(super) fn run(&self, flags: &KvFlags) -> anyhow::Result<Vec<PeerLine>> {
        let names = flags.benchmarks.iter().flat_map(|(one, times)| (0..*times).map(|_| one.name()));
        let names: Vec<&str> = names.collect();
        let mut command = Command::new(&self.program);
        command.arg(format!("--db={}", self.db.display())).arg(format!("--benchmarks={}", names.join(",")));
        if !flags.for_peer.iter().any(|flag| flag.starts_with("--compression_type=")) {
            command.arg("--compression_type=none");
        }
        let output = command.args(&flags.for_peer).output().with_context(|| {
            format!(
                "cannot run {}: install the package rocksdb-tools, or name it by --peer=db_bench=PATH",
                self.program.display()
            )
        })?;
        let text = String::from_utf8_lossy(&output.stdout);
        anyhow::ensure!(
            output.status.success(),
            "{} failed: {}{}",
            self.program.display(),
            text.lines().last().unwrap_or_default(),
            String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default()
        );
        let lines = lines(&text);
        anyhow::ensure!(
            lines.len() == names.len(),
            "{} ran {} of {} benchmarks",
            self.program.display(),
            lines.len(),
            names.len()
        );
        Ok(lines)
    }
}

/// Finds the lines with figures.
pub(super) fn lines(text: &str) -> Vec<PeerLine> {
    // Progress is written over itself: what counts is behind the last carriage return.
    let all = text.lines().filter_map(|line| line.rsplit('\r').next());
    all.filter_map(|line| {
        let (name, rest) = line.split_once(" : ")?;
        let (_, rest) = rest.split_once("micros/op ")?;
        let operations_per_second = rest.split_once(" ops/sec")?.0.trim().parse().ok()?;
        Some(PeerLine { name: name.trim().to_owned(), operations_per_second, text: line.to_owned() })
    })
    .collect()
}
