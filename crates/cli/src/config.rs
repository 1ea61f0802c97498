//! `collie config`: prints every setting with its default and its exact effect.

use std::process::ExitCode;

use collie_server::config::{KEYS, find};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Explain one setting, such as wal.flush_delay.
    #[arg(long, value_name = "KEY")]
    explain: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let keys = match &args.explain {
        Some(name) => std::slice::from_ref(find(name)?),
        None => KEYS,
    };
    for key in keys {
        println!("{} = {}\n    {}", key.name, key.default, key.effect);
    }
    if args.explain.is_none() {
        println!(
            "\nGive a setting with --set KEY=VALUE, or in a TOML file (--config FILE) as [section] and name = value."
        );
    }
    Ok(ExitCode::SUCCESS)
}
