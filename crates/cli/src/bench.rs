//! `collie bench`: runs a benchmark, prints its table, and keeps what is asked for.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use collie_bench::{Pace, Plan, TracerProgram, draw, log_bench, protocols_table, trace_thread, write_between};
use indicatif::ProgressBar;

/// Of the section that `--readme` adds.
const HEADING: &str = "Beside other protocols";

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Measure the log: appends in memory beside other protocols, commits on disk beside the disk itself, reading back.
    ///
    /// Prints a table with each figure beside its floor or peers from the same run, and the targets; a missed one is marked
    /// LOST. Takes about half an hour, or two minutes with --quick. Use a release build on a machine that does nothing
    /// else. Exit code 0 also when targets are missed: they are findings, not failures.
    Log(LogArgs),
    /// Look at a thread of the process that started this one: the other end of `bench log`, no use by itself.
    #[command(hide = true)]
    TraceThread,
}

#[derive(clap::Args)]
pub(crate) struct LogArgs {
    /// Three short runs a case instead of five long ones.
    #[arg(long)]
    quick: bool,
    /// Directory for the files that are measured, on the disk in question. They are removed at the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Run this section only (repeatable): append, threads, boundary, frozen, durable, recovery, overhead.
    #[arg(long, value_name = "SECTION")]
    only: Vec<String>,
    /// Write all figures as JSON into FILE; keys carry units.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw plots as SVG files into DIR.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Write the comparison of the protocols into FILE, between the lines `<!-- bench protocols begin -->` and
    /// `<!-- bench protocols end -->`; a FILE without them gets a section at its end. Needs the sections append, threads
    /// and frozen.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let args = match command {
        Command::Log(args) => args,
        Command::TraceThread => return trace_thread().map(|()| ExitCode::SUCCESS),
    };
    let pace = if args.quick { Pace::Quick } else { Pace::Full };
    let mut plan = Plan { only: args.only, ..Plan::new(&args.dir, pace) };
    plan.tracer = std::env::current_exe()
        .ok()
        .map(|program| TracerProgram { program, arguments: ["bench", "trace-thread"].map(Into::into).into() });
    // Read before the measuring: a document that cannot be written should not cost half an hour.
    let readme = args.readme.map(|path| read_readme(&path).map(|text| (path, text))).transpose()?;
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let shown = bar.clone();
    plan.on_progress = Arc::new(move |what| {
        shown.set_message(what.to_owned());
        shown.tick();
    });
    let report = log_bench(&plan)?;
    bar.finish_and_clear();
    print(&report.table())?;
    if let Some(path) = args.json {
        let text = format!("{:#}\n", report.json());
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(dir) = args.plots {
        for path in draw(&report, &dir)? {
            print(&format!("drawn: {}\n", path.display()))?;
        }
    }
    if let Some((path, text)) = readme {
        let text = write_between(&text, "protocols", HEADING, &protocols_table(&report)?)?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints to standard output; a reader that has seen enough, such as head, is no failure.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

fn read_readme(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    write_between(&text, "protocols", HEADING, "").with_context(|| format!("in {}", path.display()))?;
    Ok(text)
}
