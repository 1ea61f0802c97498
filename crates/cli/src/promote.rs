//! `collie promote`: makes a running replica a primary.

use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The replica's server [default: postgresql://collie@127.0.0.1:5433/collie].
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Ask nobody: what only the old primary and other replicas have is lost, and how much at last contact is printed.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    let told = runtime.block_on(async {
        let client = shell::connect(args.url.as_deref().unwrap_or(shell::DEFAULT_URL)).await?;
        let asked = format!("SELECT pg_catalog.collie_promote({})", args.force);
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
