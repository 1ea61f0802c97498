//! `collie promote`: makes a running replica a primary.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use collie_server::config::parse_time;

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The replica's server [default: postgresql://collie@127.0.0.1:5433/collie].
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Ask nobody: what only the old primary and other replicas have is lost, and how much at last contact is printed.
    #[arg(long)]
    force: bool,
    /// Have the primary, which must be there, hand over: nothing is lost, and it becomes a replica. If that fails it goes on.
    #[arg(long, conflicts_with = "force")]
    switchover: bool,
    /// What the primary's open transactions are given to end, and then the replica to take over, as in 5s [default:
    /// replication.switchover_timeout].
    #[arg(long, value_name = "TIME", requires = "switchover")]
    timeout: Option<String>,
}

impl Args {
    /// Returns the statement that does it.
    fn statement(&self) -> anyhow::Result<String> {
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

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
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
