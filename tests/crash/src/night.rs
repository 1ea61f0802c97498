//! The night: the parts of the lab in turns, with one seed after the other, for a given time, and a table of the
//! results.
//!
//! Each part runs in its own process, so that it cannot affect the next one. A violation ends its part only; the night
//! goes on, and fails at its end.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use collie_env::{Clock, RealClock};

use crate::report::{Figures, Report};

/// The arguments of the command.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) hours: f64,
    pub(crate) seed: u64,
    pub(crate) server: PathBuf,
    pub(crate) dir: PathBuf,
    /// Only parts with this in their name.
    pub(crate) only: Option<String>,
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (server, dir) = (self.server.display(), self.dir.display());
        write!(f, "night --hours {} --seed {} --server {server} --dir {dir}", self.hours, self.seed)?;
        self.only.iter().try_for_each(|only| write!(f, " --only {only}"))
    }
}

/// A part of the lab, which takes a few minutes with a release build.
#[derive(Debug)]
struct Part {
    name: &'static str,
    arguments: &'static str,
    /// Whether it starts servers, whose program is an argument.
    has_server: bool,
    /// Whether it mounts file systems, for which a directory is an argument.
    has_dir: bool,
}

const fn part(name: &'static str, arguments: &'static str) -> Part {
    Part { name, arguments, has_server: true, has_dir: false }
}

const PARTS: &[Part] = &[
    part("killloop", "killloop --cycles 60"),
    Part { has_dir: true, ..part("powercut", "powercut --cycles 40") },
    Part { has_dir: true, ..part("iofault", "iofault --cycles 20") },
    Part { has_dir: true, ..part("fulldisk", "fulldisk --rounds 12") },
    part("bitrot", "bitrot --cycles 40"),
    part("failover", "failover --cycles 20"),
    part("failover witness", "failover --witness --cycles 20"),
    part("list-append", "list-append --rounds 4 --transactions 20000 --kills 2"),
    part("list-append replica", "list-append --replica --rounds 2 --transactions 20000 --kills 4"),
    part("list-append failovers", "list-append --failovers 4 --rounds 2 --transactions 20000"),
    Part { has_server: false, ..part("cluster", "cluster --runs 12 --minutes 10") },
    part("storm", "storm --waves 16"),
    part("memory", "memory --rounds 1"),
    Part { has_server: false, ..part("log-kill", "log-kill --cycles 200") },
    Part { has_server: false, ..part("log-states", "log-states --states 500000") },
    Part { has_server: false, ..part("txn-histories", "txn-histories --transactions 4000000") },
];

/// The results of one part over the night.
#[derive(Debug, Default)]
struct Line {
    runs: u64,
    took: Duration,
    figures: Figures,
    /// Seeds of runs with a violation.
    failed: Vec<u64>,
}

/// Runs the plan; the error names the runs with a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    let parts: Vec<&Part> =
        PARTS.iter().filter(|part| plan.only.as_ref().is_none_or(|only| part.name.contains(only.as_str()))).collect();
    if parts.is_empty() {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        bail!("no part has that in its name; there are: {}", names.join(", "));
    }
    let given = Duration::try_from_secs_f64(plan.hours * 3600.0).context("--hours is no time")?;
    std::fs::create_dir_all(&plan.dir).with_context(|| format!("--dir {}", plan.dir.display()))?;
    let start_ns = RealClock.now_ns();
    let passed = || Duration::from_nanos(RealClock.now_ns() - start_ns);
    let mut lines: Vec<Line> = parts.iter().map(|_| Line::default()).collect();
    let mut seed = plan.seed;
    'night: loop {
        for (part, line) in parts.iter().zip(&mut lines) {
            if passed() >= given && line.runs > 0 {
                break 'night;
            }
            play(plan, part, seed, line)?;
        }
        if passed() >= given {
            break;
        }
        println!("{}", table(&parts, &lines));
        seed += 1;
    }
    let mut all = Figures::default();
    lines.iter().for_each(|line| all.add(line.figures));
    let failed: usize = lines.iter().map(|line| line.failed.len()).sum();
    let words = format!(
        "{}night: {:.1} h, {failed} runs with a violation",
        table(&parts, &lines),
        passed().as_secs_f64() / 3600.0
    );
    if failed > 0 {
        bail!("{words}");
    }
    Ok(Report::new(words, all))
}

/// Runs a part once; prints its output if it found a violation.
fn play(plan: &Plan, part: &Part, seed: u64, line: &mut Line) -> anyhow::Result<()> {
    let written = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(part.arguments.split(' ')).arg("--seed").arg(seed.to_string());
    if part.has_server {
        command.arg("--server").arg(&plan.server);
    }
    if part.has_dir {
        command.arg("--dir").arg(&plan.dir);
    }
    command.arg("--figures").arg(written.path());
    let start_ns = RealClock.now_ns();
    let output = command.output().with_context(|| format!("cannot start {}", part.name))?;
    let took = Duration::from_nanos(RealClock.now_ns() - start_ns);
    line.runs += 1;
    line.took += took;
    let [said, complained] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let last = said.trim_end().lines().next_back().unwrap_or_default();
    if output.status.success() {
        line.figures.add(Figures::read(written.path())?);
        println!("{} --seed {seed}: {last}", part.arguments);
    } else {
        line.failed.push(seed);
        println!("{} --seed {seed}: {}: {complained}", part.arguments, output.status);
    }
    Ok(())
}

/// Returns a table with a line for each part and one for the sums.
fn table(parts: &[&Part], lines: &[Line]) -> String {
    let mut text = format!("{:<22}{:>6}{:>9}", "part", "runs", "minutes");
    Figures::NAMES.iter().for_each(|name| _ = write!(text, "{name:>14}"));
    text.push_str("  failed seeds\n");
    let mut all = Line::default();
    for (part, line) in parts.iter().zip(lines) {
        row(&mut text, part.name, line);
        all.runs += line.runs;
        all.took += line.took;
        all.figures.add(line.figures);
    }
    row(&mut text, "all", &all);
    text
}

fn row(text: &mut String, name: &str, line: &Line) {
    let _infallible = write!(text, "{name:<22}{:>6}{:>9.1}", line.runs, line.took.as_secs_f64() / 60.0);
    line.figures.values().iter().for_each(|value| _ = write!(text, "{value:>14}"));
    let failed: Vec<String> = line.failed.iter().map(u64::to_string).collect();
    let _infallible = writeln!(text, "  {}", failed.join(" "));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the table has all figures of each part, their sums, and the seeds that failed. Method: two parts by hand.
    #[test]
    fn table_adds_up_and_names_failed_seeds() {
        let figures = Figures { cuts: 40, acknowledged: 7, ..Figures::default() };
        let first = Line { runs: 2, took: Duration::from_secs(90), figures, failed: vec![3, 5] };
        let second = Line { runs: 1, took: Duration::from_secs(30), figures, failed: Vec::new() };
        let text = table(&[&PARTS[0], &PARTS[1]], &[first, second]);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["killloop", "2", "1.5", "0", "0", "40", "0", "0", "7", "3", "5"]);
        assert_eq!(rows[2], ["powercut", "1", "0.5", "0", "0", "40", "0", "0", "7"]);
        assert_eq!(rows[3], ["all", "3", "2.0", "0", "0", "80", "0", "0", "14"]);
    }
}
