//! `collie restore`.

use std::{ops::ControlFlow, path::PathBuf, process::ExitCode};

use collie_base::{EPOCH_2000_US, Lsn};
use collie_engine::RestoreTo;
use collie_env::Env;
use collie_sql::types::{
    Value,
    io::{TextContext, text_in},
    oid,
};
use serde_json::json;

use crate::{
    copying::Copying,
    wal::{count, position},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The backup, or a checkpoint that was never opened.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Data directory to make; it may exist if it is empty.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Restore only the commits below this position, as in 0/1A2F000 or in decimal: a position that `collie wal dump
    /// BACKUP` prints, from the first one to which the backup can be restored (`collie backup verify`) on.
    #[arg(long, value_name = "LSN", value_parser = position)]
    to_lsn: Option<Lsn>,
    /// Restore only what was committed up to this time, as in '2026-01-02 03:04:05+00'; without a zone it is UTC.
    /// Nothing later is restored, and perhaps not the last second before: times are noted once a second. The time must
    /// not be before the start of the backup.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "to_lsn")]
    to_time: Option<i64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let env = Env::real();
    let mut copying = Copying::new(&*env.clock);
    let to = args.to_time.map_or(RestoreTo::from(args.to_lsn), RestoreTo::Time);
    let restored = collie_engine::restore(&args.backup, &args.dir, to, &env, &mut |progress| {
        copying.report(progress);
        ControlFlow::Continue(())
    });
    copying.finish();
    let restored = restored?;
    let (dir, end, backup) = (args.dir.display(), restored.end, restored.backup);
    if args.json {
        println!(
            "{}",
            json!({
                "dir": dir.to_string(),
                "end_lsn": end.to_string(),
                "backup_end_lsn": backup.end.to_string(),
                "files": backup.files,
                "bytes": backup.bytes,
            })
        );
    } else {
        println!("restored {dir} from {}, {}", count(backup.files, "file"), count(backup.bytes, "byte"));
        println!("it holds every commit below {end}; start it with: collie serve --data {dir}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses a time as SQL does; returns microseconds since 1970.
fn time(text: &str) -> Result<i64, String> {
    let now = Env::real().clock.wall_us().saturating_sub(EPOCH_2000_US);
    match text_in(oid::TIMESTAMPTZ, -1, text, &TextContext { now, ..TextContext::default() }) {
        Ok(Value::TimestampTz(us)) => us.checked_add(EPOCH_2000_US).ok_or_else(|| "no such time".to_owned()),
        Ok(_) => Err("no time".to_owned()),
        Err(error) => Err(error.report().message.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: times are read as SQL reads them, in UTC without a zone. Method: one moment in three notations, and texts
    /// that are no time.
    #[test]
    fn time_is_read_as_in_sql() {
        for text in ["2026-01-02 03:04:05+00", "2026-01-02 03:04:05", "2026-01-02T05:04:05+02"] {
            assert_eq!(time(text), Ok(1_767_323_045_000_000), "{text}");
        }
        assert!(time("yesterday at noon-ish").is_err() && time("").is_err());
    }
}
