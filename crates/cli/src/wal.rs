//! `collie wal`: looks at a log without locking or changing it.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use collie_base::Lsn;
use collie_env::Env;
use collie_wal::{RecordKind, inspect};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Print one line per record: position, end, kind, tag, bytes, file and offset of its frame.
    ///
    /// Works on a live log up to what is written. Exit code 1 if it stopped at damage.
    Dump {
        /// Data directory, or its log directory.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// First position, as in 0/01A2F000.
        #[arg(long, value_name = "LSN", default_value = "0/0")]
        from: Lsn,
        /// End position; records at or above it are left out.
        #[arg(long, value_name = "LSN")]
        to: Option<Lsn>,
        /// One JSON object per record.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let Command::Dump { dir, from, to, json } = command;
    // A data directory holds its log in `wal`; a directory with segments is a log itself.
    let inner = dir.join("wal");
    let dir = if inner.is_dir() { inner } else { dir };
    let found = inspect(&Env::real(), &dir).with_context(|| format!("cannot read the log in {}", dir.display()))?;
    if found.segments().is_empty() && found.damage().is_none() {
        anyhow::bail!("cannot read the log in {}: there is no log", dir.display());
    }
    use std::io::Write;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for record in found.records(from) {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                out.flush()?;
                return Err(error.into());
            }
        };
        if to.is_some_and(|to| record.lsn >= to) {
            break;
        }
        let kind = match record.kind {
            RecordKind::Data => "data",
            RecordKind::Unlogged => "unlogged",
        };
        let file = record.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let meaning = collie_engine::describe_record(record.tag, &record.body);
        let written = if json {
            let line = serde_json::json!({
                "lsn": record.lsn.to_string(), "end": record.end.to_string(), "kind": kind, "tag": record.tag,
                "bytes": record.body.len(), "file": file, "offset": record.offset, "meaning": meaning,
            });
            writeln!(out, "{line}")
        } else {
            writeln!(
                out,
                "{} {} {kind} tag {} {} bytes {file}:{} {meaning}",
                record.lsn,
                record.end,
                record.tag,
                record.body.len(),
                record.offset
            )
        };
        if let Err(error) = written {
            // A reader that has seen enough, such as head, is no failure.
            return if error.kind() == std::io::ErrorKind::BrokenPipe {
                Ok(ExitCode::SUCCESS)
            } else {
                Err(error.into())
            };
        }
    }
    out.flush()?;
    if let Some(note) = found.torn_note() {
        eprintln!("{note}");
    }
    match found.damage() {
        Some(damage) => Err(damage.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}
