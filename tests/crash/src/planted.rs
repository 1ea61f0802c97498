//! A server with a planted mistake, for the lab to find; only with the feature `planted-bugs`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Subcommand;
use collie_server::{Server, config::Config};

/// The arguments of `collie serve` that the lab uses.
#[derive(Subcommand)]
pub(crate) enum Serve {
    /// As `collie serve`.
    Serve {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        data: PathBuf,
        #[arg(long)]
        set: Vec<String>,
    },
}

/// Returns the path of this program.
pub(crate) fn program() -> PathBuf {
    std::env::current_exe().expect("a running program knows its path")
}

/// Serves until it is killed.
pub(crate) fn serve(mistake: &str, Serve::Serve { listen, data, set }: Serve) -> anyhow::Result<String> {
    collie_sync::plant(mistake);
    let mut config = Config::default();
    set.iter().try_for_each(|pair| config.set_pair(pair))?;
    config.listen = listen;
    let (server, _) = Server::start(config, &data, &mut |_| ())?;
    println!("listening on {}", server.address());
    server.run()?;
    Ok(String::new())
}
