//! `collie restore`.

use std::{ops::ControlFlow, path::PathBuf, process::ExitCode};

use collie_base::Lsn;
use collie_env::Env;
use serde_json::json;

use crate::{
    copying::Copying,
    wal::{count, position},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The backup, or a checkpoint that was not opened.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Data directory to make; it may be there if it is empty.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Restore the commits below this position only, as in 0/01A2F000 or in decimal: a position that
    /// `collie wal dump BACKUP` prints, from the one that the backup can be restored to (`collie backup verify`) on.
    #[arg(long, value_name = "LSN", value_parser = position)]
    to_lsn: Option<Lsn>,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let env = Env::real();
    let mut copying = Copying::new(&*env.clock);
    let restored = collie_engine::restore(&args.backup, &args.dir, args.to_lsn, &env, &mut |progress| {
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
