//! `collie wal`: inspects a log, checks it, and cuts it. Wiring and printing; `collie_wal` decides what a log is.

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
    /// Changes nothing. Works on a live log, up to the written position. The exit code is 1 if it stopped at damage;
    /// with --skip-bad it does not stop.
    Dump(dump::Args),
    /// Read every frame and print what an open would do.
    ///
    /// Changes nothing without --repair. Works on a live log. The exit code is 0 if the log would open with every
    /// acknowledged record, and 1 if it is damaged; the error gives the place, the loss, and the ways out.
    Verify(verify::Args),
    /// Show the contents of the log: files, spares, how far it is durable, records, padding, and what each consumer
    /// keeps.
    ///
    /// Changes nothing. Works on a live log.
    Stat(stat::Args),
    /// Cut the end off a log: records that start at or above LSN are removed, everything below stays.
    ///
    /// For a stopped server. LSN must be a record boundary, as printed by `collie wal dump`. Shows what is to be
    /// removed, copies the files that hold it into DIR/wal/cut-at-..., then cuts. If interrupted, it can be run again.
    /// A damaged log can be cut at or below the damage, and then opens. The removed records may include acknowledged
    /// commits.
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
        // A reader that closes its end early, such as head, is no error.
        Err(error) if error.is::<output::Closed>() => Ok(ExitCode::SUCCESS),
        other => other,
    }
}

/// Returns the directory with the segments: the log of a data directory is in `wal`, unless the directory names another
/// place.
fn log_dir(dir: &Path) -> PathBuf {
    let inner = dir.join("wal");
    // A file that cannot be read is ignored: the log is then searched in its usual place.
    let said = collie_engine::log_dir_of(dir, &Env::real()).ok().filter(|said| *said != inner);
    said.unwrap_or_else(|| if inner.is_dir() { inner } else { dir.to_owned() })
}

/// Returns the data directory of a log: a control file lies next to the log, or next to the log of which this is a
/// copy, or else the log directory names it.
fn data_dir(log_dir: &Path) -> Option<PathBuf> {
    let said = || collie_engine::data_dir_of(log_dir, &Env::real()).ok().flatten();
    let beside = log_dir.ancestors().skip(1).take(2).find(|above| above.join("control").is_file());
    beside.map(Path::to_owned).or_else(|| said().filter(|data| data.join("control").is_file()))
}

/// Returns whether the log belongs to a database, and not to another program that embeds `collie-wal`.
fn is_database(log_dir: &Path) -> bool {
    data_dir(log_dir).is_some()
}

/// Returns a number with its noun.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Parses a position, in the notation of dump or as a decimal number.
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

    /// Goal: a position is read in both notations, and other texts are refused. Method: edge values.
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
