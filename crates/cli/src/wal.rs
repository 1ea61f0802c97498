//! `collie wal`: looks at a log, checks it, and cuts it. Wiring and printing; what a log is, `collie_wal` decides.

mod dump;
mod output;
mod scan;
mod stat;
mod truncate;
mod verify;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use collie_base::Lsn;
use collie_env::Env;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Print one line per record: position, end, kind, tag, bytes, file and offset of its frame.
    ///
    /// Changes nothing. Works on a live log up to what is written. Exit code 1 if it stopped at damage; with --skip-bad it
    /// does not stop.
    Dump(dump::Args),
    /// Read every frame and say what an open would do.
    ///
    /// Changes nothing without --repair. Works on a live log. Exit code 0 if the log would open with every acknowledged
    /// record, 1 if it is damaged; the error says where, what is lost, and the ways out.
    Verify(verify::Args),
    /// Show what the log consists of: files, spares, how far it is durable, records, padding, and which consumer keeps what.
    ///
    /// Changes nothing. Works on a live log.
    Stat(stat::Args),
    /// Cut the end off a log: records that start at or above LSN go, everything below stays.
    ///
    /// For a server that is stopped. LSN must be a record's boundary, as `collie wal dump` prints them. Shows what goes,
    /// copies the files that hold it into DIR/wal/cut-at-..., then cuts. Interrupted, it can be run again. A damaged log
    /// can be cut at or below the damage, and then opens. Commits that were acknowledged may be among what goes.
    TruncateAt(truncate::Args),
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let result = match command {
        Command::Dump(args) => dump::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::TruncateAt(args) => truncate::run(&args),
    };
    match result {
        // A reader that has seen enough, such as head, is no failure.
        Err(error) if error.is::<output::Closed>() => Ok(ExitCode::SUCCESS),
        other => other,
    }
}

/// Returns the directory with the segments: a data directory holds its log in `wal`, or says where it is.
fn log_dir(dir: &Path) -> PathBuf {
    let inner = dir.join("wal");
    // What cannot be read says nothing: the log is looked for where it usually is.
    let said = collie_engine::log_dir_of(dir, &Env::real()).ok().filter(|said| *said != inner);
    said.unwrap_or_else(|| if inner.is_dir() { inner } else { dir.to_owned() })
}

/// Returns the data directory of a log: a control file lies beside it, or beside the log of which it is a copy, or it says where.
fn data_dir(log_dir: &Path) -> Option<PathBuf> {
    let said = || collie_engine::data_dir_of(log_dir, &Env::real()).ok().flatten();
    let beside = log_dir.ancestors().skip(1).take(2).find(|above| above.join("control").is_file());
    beside.map(Path::to_owned).or_else(|| said().filter(|data| data.join("control").is_file()))
}

/// Returns whether the log is a database's, and not another program's that embeds `collie-wal`.
fn is_database(log_dir: &Path) -> bool {
    data_dir(log_dir).is_some()
}

/// Returns a number with its noun.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Reads a position, as dump prints it or as a decimal number.
pub(crate) fn position(text: &str) -> Result<Lsn, String> {
    let decimal = || text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok().map(Lsn::new))?;
    let parsed = text.parse().ok().or_else(decimal);
    parsed.ok_or_else(|| "expected high/low in hexadecimal, as in 0/1A2F000, or a decimal number of bytes".to_owned())
}

/// Returns the last component of a path as text.
fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a position is read in both forms, and what is neither is refused. Method: edge values.
    #[test]
    fn positions_are_read_in_both_forms() {
        for (text, value) in [("0/1000", 4096), ("0/00001000", 4096), ("4096", 4096), ("1/0", 1 << 32), ("0", 0)] {
            assert_eq!(position(text), Ok(Lsn::new(value)), "{text}");
        }
        for text in ["", "-1", "0x10", "1/", "12a", "99999999999999999999", "+5"] {
            assert!(position(text).is_err(), "{text}");
        }
    }
}
