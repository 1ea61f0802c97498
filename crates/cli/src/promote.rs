//! `collie promote`: makes a running replica a primary; with `--force-term` also a node that has promised a term in
//! which no node leads.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, bail};
use collie_base::{Term, parse_time};
use collie_engine::{DirectoryIdentity, Promise, log_dir_of};
use collie_env::Env;

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The replica's server [default: postgresql://collie@127.0.0.1:5433/collie].
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Ask no other node: commits that only the old primary and other replicas have are lost; the amount at last
    /// contact is printed.
    #[arg(long)]
    force: bool,
    /// Lead in this term, without asking any node and regardless of what the node has promised: for a node that has
    /// promised a term in which none can lead. Two nodes may lead afterwards: make sure that no other one does. With
    /// --data, for a stopped server.
    #[arg(long, value_name = "TERM", conflicts_with_all = ["force", "switchover"])]
    force_term: Option<u64>,
    /// With --force-term: the data directory of a stopped server. A primary leads in TERM again when it is started,
    /// which must be the term in which it led; a replica follows the node that leads in TERM or a higher one.
    #[arg(long, value_name = "DIR", requires = "force_term", conflicts_with = "url")]
    data: Option<PathBuf>,
    /// Make the primary, which must be reachable, hand over: nothing is lost, and it becomes a replica. If that fails,
    /// it goes on as primary.
    #[arg(long, conflicts_with = "force")]
    switchover: bool,
    /// The time that the primary's open transactions are given to end, and then the replica to take over, as in 5s
    /// [default: replication.switchover_timeout].
    #[arg(long, value_name = "TIME", requires = "switchover")]
    timeout: Option<String>,
}

impl Args {
    /// Returns the statement that performs the promotion.
    fn statement(&self) -> anyhow::Result<String> {
        if let Some(term) = self.force_term {
            return Ok(format!(
                "SELECT pg_catalog.collie_promote_in({})",
                i64::try_from(term).context("--force-term")?
            ));
        }
        if !self.switchover {
            return Ok(format!("SELECT pg_catalog.collie_promote({})", self.force));
        }
        let ms = match &self.timeout {
            None => 0,
            Some(text) => {
                let time = parse_time(text)
                    .with_context(|| format!("--timeout {text}: expected a time, as in 500ms or 5s"))?;
                i32::try_from(time.as_millis())
                    .ok()
                    .filter(|ms| *ms > 0)
                    .context("--timeout: expected 1ms to 24 days")?
            }
        };
        Ok(format!("SELECT pg_catalog.collie_switchover({ms})"))
    }
}

/// Printed before promises are given up.
const WARNING: &str = "warning: what this node has promised to others is given up: if another one leads, or is promoted by them, both \
                       take writes, and those of one are lost";

/// Gives up the promises of the closed directory `data`, in favor of `term`.
fn force(data: &std::path::Path, term: u64) -> anyhow::Result<ExitCode> {
    let env = Env::real();
    let log = log_dir_of(data, &env)?;
    // The lock of the log excludes a running server.
    let lock = log.join("LOCK");
    let _held =
        env.files.lock(&lock).map_err(|error| anyhow::anyhow!("{}: {error}: stop its server first", lock.display()))?;
    let who = DirectoryIdentity::read(data, &env)?.with_context(|| format!("{} holds no database", data.display()))?;
    let told = if who.follows { "follows whoever leads in" } else { "leads in" };
    let forced = Promise::force(&env, data, Term::new(term));
    let before =
        forced.with_context(|| format!("{} has records of term {} and {told} it", data.display(), who.term))?;
    println!("{}: had promised term {}; it {told} term {term} when it is started", data.display(), before.term);
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(term) = args.force_term {
        eprintln!("{WARNING}");
        if let Some(data) = &args.data {
            return force(data, term);
        }
    }
    let asked = args.statement()?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    let told = runtime.block_on(async {
        let client = shell::connect(args.url.as_deref().unwrap_or(shell::DEFAULT_URL)).await?;
        let answer = client.simple_query(&asked).await.map_err(|error| match error.as_db_error() {
            Some(told) => anyhow::anyhow!("not promoted: {}", told.message()),
            None => anyhow::Error::new(error).context("the server does not answer"),
        })?;
        let told = answer.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        anyhow::Ok(told)
    })?;
    let Some(told) = told else { bail!("the server said nothing: is it Collie?") };
    println!("{told}");
    Ok(ExitCode::SUCCESS)
}
