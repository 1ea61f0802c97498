//! `Load`: a run of pgbench, and what it reports.

use std::{process::Command, time::Duration};

use anyhow::Context;

use super::Server;
use crate::{
    Latencies, Plan, Scratch,
    measures::{float, micros},
};

/// Threads of pgbench.
const JOBS: usize = 2;

/// The script that its clients run repeatedly.
#[derive(Clone, Copy)]
pub(crate) enum Script<'a> {
    /// One of pgbench's own.
    Builtin(&'static str),
    /// This text.
    Text(&'a str),
}

/// The length of the run.
#[derive(Clone, Copy)]
pub(crate) enum Length {
    /// This time, in whole seconds, at least one.
    Time(Duration),
    /// This number of transactions per client.
    Transactions(u64),
}

/// A run of pgbench.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) script: Script<'a>,
    pub(crate) clients: usize,
    pub(crate) length: Length,
    /// The query mode: "simple" or "prepared".
    pub(crate) protocol: &'static str,
    /// Settings for its sessions, as `-c name=value`.
    pub(crate) settings: &'a str,
}

/// The results that pgbench reports.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Committed transactions per second.
    pub(crate) tps: f64,
    /// Committed transactions of all clients together.
    pub(crate) committed: u64,
    /// Transactions refused with 40001 or 40P01, not retried.
    pub(crate) failed: u64,
    /// Latencies of the committed transactions.
    pub(crate) latencies: Latencies,
    /// The mean time of each statement in milliseconds, in the order of the script.
    pub(crate) statements: Vec<(String, f64)>,
}

impl Done {
    /// Returns the percentage of the transactions that were refused.
    pub(crate) fn failed_percent(&self) -> f64 {
        100.0 * float(self.failed) / float((self.committed + self.failed).max(1))
    }

    pub(crate) fn p50_us(&self) -> f64 {
        micros(self.latencies.at_per_mille(500))
    }

    pub(crate) fn p99_us(&self) -> f64 {
        micros(self.latencies.at_per_mille(990))
    }

    /// Returns the mean time of the statements that begin with `word`, in microseconds.
    pub(crate) fn statement_us(&self, word: &str) -> Option<f64> {
        self.statements.iter().find(|(text, _)| text.starts_with(word)).map(|(_, ms)| ms * 1e3)
    }
}

/// Creates the tables of its built-in scripts.
///
/// # Errors
/// Those of [`pgbench`].
pub(crate) fn pgbench_tables(server: &Server, scale: u32) -> anyhow::Result<()> {
    succeed(base(server).args(["-i", "-q", "-s", &scale.to_string()]).arg(server.account().1)).map(drop)
}

/// Runs a load.
///
/// # Errors
/// pgbench does not start, or a client ended early, with an error other than a refused transaction.
pub(crate) fn pgbench(plan: &Plan, server: &Server, load: &Load<'_>) -> anyhow::Result<Done> {
    let scratch = Scratch::new(&plan.env, &plan.dir)?;
    let mut command = base(server);
    command.args(["-n", "-r", "-M", load.protocol, "-c", &load.clients.to_string()]);
    command.args(["-j", &load.clients.min(JOBS).to_string(), "-l", "--log-prefix"]).arg(scratch.path().join("log"));
    match load.length {
        Length::Time(time) => command.args(["-T", &time.as_secs().max(1).to_string()]),
        Length::Transactions(count) => command.args(["-t", &count.to_string()]),
    };
    match load.script {
        Script::Builtin(name) => command.args(["-b", name]),
        Script::Text(text) => {
            let path = scratch.path().join("script");
            std::fs::write(&path, text)?;
            command.arg("-f").arg(path)
        }
    };
    let text = succeed(command.env("PGOPTIONS", load.settings).arg(server.account().1))?;
    let mut done = parse(&text).with_context(|| format!("pgbench says nothing to be read: {text}"))?;
    for name in plan.env.files.list(scratch.path())?.iter().filter(|name| name.starts_with("log")) {
        let log = std::fs::read_to_string(scratch.path().join(name))?;
        // The third word is the time in microseconds, or the reason why there is none.
        for us in log.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<u64>().ok()) {
            done.latencies.record(us * 1000);
        }
    }
    Ok(done)
}

fn base(server: &Server) -> Command {
    let mut command = Command::new(server.bin.join("pgbench"));
    command.args(["-h", "127.0.0.1", "-p", &server.port().to_string(), "-U", server.account().0]);
    command
}

fn succeed(command: &mut Command) -> anyhow::Result<String> {
    let done = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let words = String::from_utf8_lossy(&done.stderr);
    anyhow::ensure!(done.status.success(), "pgbench failed: {}", words.trim().replace('\n', "; "));
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Parses the output of pgbench; `None` without its main figures.
fn parse(text: &str) -> Option<Done> {
    let after = |prefix: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(prefix))?;
        line.split(['/', ' ']).find(|word| !word.is_empty())
    };
    let number = |prefix: &str| after(prefix)?.parse::<u64>().ok();
    let mut done = Done {
        tps: after("tps = ")?.parse().ok()?,
        committed: number("number of transactions actually processed:")?,
        failed: number("number of failed transactions:").unwrap_or(0),
        ..Done::default()
    };
    let table = text.lines().skip_while(|line| !line.starts_with("statement latencies"));
    for line in table.skip(1) {
        let mut words = line.split_whitespace();
        // The time, the failures, and the statement.
        if let (Some(Ok(ms)), Some(_failures)) = (words.next().map(str::parse), words.next()) {
            done.statements.push((words.collect::<Vec<_>>().join(" "), ms));
        }
    }
    Some(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the figures are parsed from their places. Method: a report in pgbench's format, with refused transactions
    /// and statements; a truncated one.
    #[test]
    fn reports_are_read() {
        let text = "transaction type: s\nnumber of clients: 2\nnumber of transactions actually processed: 90/100\n\
                    number of failed transactions: 10 (10.000%)\nlatency average = 1.5 ms\n\
                    tps = 1234.500000 (without initial connection time)\n\
                    statement latencies in milliseconds and failures:\n         \
                    0.010           0  BEGIN;\n         2.500          10  UPDATE t SET n = 1;\n         0.250           0  COMMIT;\n";
        let done = parse(text).unwrap();
        assert_eq!((done.committed, done.failed, done.tps), (90, 10, 1234.5));
        assert!((done.failed_percent() - 10.0).abs() < 1e-9);
        assert_eq!((done.statement_us("COMMIT"), done.statement_us("ROLLBACK")), (Some(250.0), None));
        assert_eq!(done.statements[1].0, "UPDATE t SET n = 1;");
        assert!(parse("number of clients: 2\n").is_none());
    }
}
