//! The runs of a plan: each is a process with all of its threads on one processor, of which one runs at a time.

use std::{
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use anyhow::{Context, ensure};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use parking_lot::Mutex;

use super::Plan;
use crate::report::Figures;

/// Runs all seeds of a plan, as many at a time as it says, and prints the result of each; returns the sums.
///
/// # Errors
/// The violation of the first seed for which one was found.
pub(super) fn all(plan: &Plan) -> anyhow::Result<Figures> {
    let processors = processors()?;
    let first = usize::try_from(std::process::id())?;
    let next = AtomicU64::new(0);
    let sum = Mutex::new(Ok(Figures::default()));
    let work = |processor: usize| {
        while sum.lock().is_ok() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= plan.runs {
                break;
            }
            let ran = single(plan, plan.seed + number, processor);
            let mut sum = sum.lock();
            match (&mut *sum, ran) {
                (Ok(sum), Ok(figures)) => sum.add(figures),
                (Ok(_), Err(error)) => *sum = Err(error),
                (Err(_), _) => {}
            }
        }
    };
    thread::scope(|scope| {
        let jobs = plan.jobs.unwrap_or(processors.len()).max(1);
        for job in 0..jobs.min(usize::try_from(plan.runs).unwrap_or(usize::MAX)) {
            // Other plans may run at the same time, so each begins at another processor.
            let processor = processors[(first + job) % processors.len()];
            scope.spawn(move || work(processor));
        }
    });
    sum.into_inner()
}

/// Runs one seed.
fn single(plan: &Plan, seed: u64, processor: usize) -> anyhow::Result<Figures> {
    let written = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["cluster", "--runs", "1", "--seed", &seed.to_string(), "--minutes", &plan.minutes.to_string()]);
    command.args(["--inside", &processor.to_string()]).arg("--figures").arg(written.path());
    plan.plant.iter().for_each(|mistake| _ = command.args(["--plant", mistake]));
    if !plan.kinds.is_empty() {
        command.args(["--kinds", &plan.kinds()]);
    }
    plan.quorum.iter().for_each(|quorum| _ = command.args(["--quorum", quorum]));
    if plan.lists {
        command.arg("--lists");
    }
    if plan.witness {
        command.arg("--witness");
    }
    if plan.echo {
        command.arg("--echo");
    }
    let output = command.output().context("cannot start a run")?;
    let [said, complained] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    if plan.echo {
        eprint!("{complained}");
    }
    ensure!(output.status.success(), "seed {seed}: {}\n{}", output.status, complained.trim_end());
    println!("{}", said.trim_end());
    Figures::read(written.path())
}

/// Returns the processors that this process may use.
fn processors() -> anyhow::Result<Vec<usize>> {
    let allowed = sched_getaffinity(Pid::this()).context("cannot ask for processors")?;
    Ok((0..CpuSet::count()).filter(|number| allowed.is_set(*number).unwrap_or(false)).collect())
}

/// Binds this thread, and the threads that it starts, to one processor: a switch to a thread on another processor takes
/// three times as long.
///
/// # Errors
/// The process may not use that processor.
pub(super) fn stay_on(processor: usize) -> anyhow::Result<()> {
    let mut only = CpuSet::new();
    only.set(processor)?;
    sched_setaffinity(Pid::from_raw(0), &only).with_context(|| format!("cannot stay on processor {processor}"))
}
