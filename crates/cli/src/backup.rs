//! `collie backup` and `collie backup verify`.

use std::{ops::ControlFlow, path::PathBuf, process::ExitCode};

use anyhow::bail;
use collie_engine::{Backup, BackupFault, CheckpointOptions, verify_backup};
use collie_env::Env;
use serde_json::json;

use crate::{
    checkpoint::{Source, make},
    copying::Copying,
    wal::count,
};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// What to make: with a running server, a name below its server.copy_dir (by default the directory copies in its
    /// data directory), or the whole path of it; with --data, a directory. The directory may exist if it is empty.
    #[arg(value_name = "DIR", required = true)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Compare every file of a backup with its recorded size and checksums, and with the checksums inside it.
    ///
    /// This also finds a file that was rotten before the backup was made. Changes nothing. The exit code is 0 if every
    /// file is as it was made, and 1 if not; each bad file gets a line that gives the place.
    Verify(VerifyArgs),
}

#[derive(clap::Args)]
struct VerifyArgs {
    /// The backup, or a checkpoint that was never opened.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match (&args.command, &args.dir) {
        (Some(Command::Verify(args)), _) => verify(args),
        (None, Some(dir)) => make(dir, &args.source, CheckpointOptions { copy: true }, args.json),
        (None, None) => bail!("name the directory to make"),
    }
}

fn verify(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let env = Env::real();
    let mut checking = Copying::new(&*env.clock);
    let checked = verify_backup(&args.backup, &env, &mut |progress| {
        checking.report(progress);
        ControlFlow::Continue(())
    });
    checking.finish();
    let (backup, faults) = checked?;
    let Backup { from, end, files, bytes, .. } = backup;
    if args.json {
        println!("{}", facts(&backup, &faults));
    } else if faults.is_empty() {
        println!("whole: {}, {}, every checksum is right", count(files, "file"), count(bytes, "byte"));
        println!("it holds every commit below {end}, and can be restored to positions from {from} on");
    } else {
        for BackupFault { path, offset, what } in &faults {
            match offset {
                Some(offset) => println!("bad: {}, from byte {offset} on, {what}", path.display()),
                None => println!("bad: {} {what}", path.display()),
            }
        }
    }
    if faults.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    bail!(
        "{} of {} in {} are not as they were made: use another backup",
        faults.len(),
        count(files, "file"),
        args.backup.display()
    )
}

fn facts(backup: &Backup, faults: &[BackupFault]) -> serde_json::Value {
    let fault = |fault: &BackupFault| json!({ "path": fault.path.display().to_string(), "offset_bytes": fault.offset, "what": fault.what });
    json!({
        "whole": faults.is_empty(),
        "cluster_id": format!("{:032x}", backup.cluster),
        "made_unix_us": backup.wall_us,
        "start_lsn": backup.start.to_string(),
        "from_lsn": backup.from.to_string(),
        "end_lsn": backup.end.to_string(),
        "files": backup.files,
        "bytes": backup.bytes,
        "faults": faults.iter().map(fault).collect::<Vec<_>>(),
    })
}
