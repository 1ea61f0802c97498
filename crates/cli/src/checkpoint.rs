//! `collie checkpoint`; and the request for a copy, which `collie backup` shares.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use collie::{progress::Recovery, serve};
use collie_engine::{CheckpointOptions, Db};
use collie_env::Env;
use serde_json::json;

use crate::{copying::Copying, shell, wal::count};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to make: with a running server, a name below its server.copy_dir (by default the directory copies in its
    /// data directory), or the whole path of it; with --data, a directory. The directory may exist if it is empty.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The database to copy.
#[derive(clap::Args)]
pub(crate) struct Source {
    /// A running server [default: postgresql://collie@127.0.0.1:5433/collie].
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    url: Option<String>,
    /// Open this data directory in this process; no server may have it open.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// With --data: TOML file of the server.
    #[arg(long, value_name = "FILE", requires = "data")]
    config: Option<PathBuf>,
    /// With --data: one setting of the server, such as wal.copies=DIR; may be repeated, and overrides the file.
    #[arg(long, value_name = "KEY=VALUE", requires = "data")]
    set: Vec<String>,
}

/// The copy that was made.
struct Made {
    start: String,
    from: String,
    end: String,
    files: u64,
    bytes: u64,
    dir: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    make(&args.dir, &args.source, CheckpointOptions { copy: false }, args.json)
}

/// Makes a copy in `dir`, or has the server make it, and prints what it holds.
pub(crate) fn make(dir: &Path, source: &Source, options: CheckpointOptions, json: bool) -> anyhow::Result<ExitCode> {
    let made = match &source.data {
        Some(data) => by_itself(data, source, dir, options)?,
        None => by_server(source.url.as_deref().unwrap_or(shell::DEFAULT_URL), dir, options)?,
    };
    let Made { start, from, end, files, bytes, dir } = made;
    if json {
        println!(
            "{}",
            json!({
                "dir": dir,
                "start_lsn": start,
                "from_lsn": from,
                "end_lsn": end,
                "files": files,
                "bytes": bytes,
            })
        );
    } else {
        println!("made {dir}: {}, {}", count(files, "file"), count(bytes, "byte"));
        println!("it holds every commit below {end}, and can be restored to positions from {from} on");
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the data directory and copies it.
fn by_itself(data: &Path, source: &Source, dir: &Path, options: CheckpointOptions) -> anyhow::Result<Made> {
    let mut engine = serve::settings(source.config.as_ref(), &source.set)?.engine;
    // Nothing may change except what an open does.
    (engine.create_if_missing, engine.background) = (false, false);
    let env = Env::real();
    let mut recovery = Recovery::new(&*env.clock, |line| eprintln!("{line}"));
    let opened = Db::open(data, engine, env.clone(), &mut |progress| recovery.report(progress));
    recovery.finish();
    let (db, report) = opened?;
    report.notices.iter().for_each(|notice| eprintln!("{notice}"));
    let mut copying = Copying::new(&*env.clock);
    let made = db.checkpoint(dir, options, &mut |progress| {
        copying.report(progress);
        ControlFlow::Continue(())
    });
    copying.finish();
    let made = made?;
    db.close().with_context(|| format!("the copy is made, but {} was not closed", data.display()))?;
    let [start, from, end] = [made.start, made.from, made.end].map(|lsn| lsn.to_string());
    Ok(Made { start, from, end, files: made.files, bytes: made.bytes, dir: dir.display().to_string() })
}

/// Asks a server to copy its open database.
fn by_server(url: &str, dir: &Path, options: CheckpointOptions) -> anyhow::Result<Made> {
    // The server resolves a bare name; a path is meant relative to this shell's directory.
    let is_name = dir.components().count() == 1 && !dir.to_string_lossy().contains('/');
    let dir = if is_name { Ok(dir.to_owned()) } else { std::path::absolute(dir) }
        .with_context(|| format!("cannot look up {}", dir.display()))?;
    let Some(path) = dir.to_str() else { bail!("{} is not UTF-8, which a server takes only", dir.display()) };
    let sql = format!("CALL collie_checkpoint('{}', {})", path.replace('\'', "''"), options.copy);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    let messages = runtime.block_on(async {
        let client = shell::connect(url).await?;
        client.simple_query(&sql).await.map_err(|error| match error.as_db_error() {
            Some(refused) => match refused.hint() {
                Some(hint) => anyhow::anyhow!("{}: {hint}", refused.message()),
                None => anyhow::anyhow!("{}", refused.message()),
            },
            None => anyhow::anyhow!("{url}: {}", shell::cause(&error)),
        })
    })?;
    let row = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let text = |name: &str| row.and_then(|row| row.try_get(name).ok()?).map(str::to_owned);
    let number = |name: &str| text(name)?.parse().ok();
    let made = || {
        let (start, from, end) = (text("start_lsn")?, text("from_lsn")?, text("end_lsn")?);
        let (files, bytes, dir) = (number("files")?, number("bytes")?, text("directory")?);
        Some(Made { start, from, end, files, bytes, dir })
    };
    made().with_context(|| format!("{url} did not say what it made: is it a Collie server of this version?"))
}
