//! `collie witness`.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use collie_server::{WitnessServer, log_lines};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory of the witness; made if it does not exist. It needs a few kilobytes, and the replication key.
    #[arg(long, value_name = "DIR", default_value = "./collie-witness")]
    data: PathBuf,
    /// Address for the nodes of the database.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5464")]
    listen: SocketAddr,
    /// The replication key, copied from a node [default: replication.key in the directory].
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let server = WitnessServer::start(args.listen, &args.data, args.key_file.as_deref())?;
    log_lines::note(&server.summary());
    println!("listening on {}", server.address());
    server.run();
    log_lines::note(&"stopped: every promise is on disk");
    Ok(ExitCode::SUCCESS)
}
