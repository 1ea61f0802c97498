//! `collie replica-key`: shows and changes the key by which the nodes of a database know each other.

use std::{path::PathBuf, process::ExitCode};

use collie_env::Env;
use collie_replica::key::{KEY_FILE, KeyFile, Keys};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Print the keys in a node's file, including the secrets: the newest first; every one of them is accepted.
    Show(Place),
    /// Put a new key in front of those that the node has.
    ///
    /// Nothing has to be stopped or restarted: the file is read at each connection. 1. Rotate on one node. 2. Copy its
    /// file to every other node, mode 0600: from then on they use the new key, and accept the old one. 3. On every
    /// node, rotate --end: the old key is no longer accepted. Open connections stay.
    Rotate {
        /// Remove every key except the newest, once all nodes have that one.
        #[arg(long)]
        end: bool,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(clap::Args)]
pub(crate) struct Place {
    /// Data directory of the node.
    #[arg(long, value_name = "DIR", default_value = "./collie-data")]
    data: PathBuf,
    /// The file, if replication.key_file names another one than replication.key in the data directory.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Place {
    fn file(self) -> KeyFile {
        KeyFile::new(&Env::real(), self.file.unwrap_or_else(|| self.data.join(KEY_FILE)))
    }
}

fn list(keys: &Keys) -> String {
    keys.ids().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Show(place) => {
            let keys = place.file().read()?;
            eprintln!("ids, newest first: {}", list(&keys));
            print!("{}", keys.text());
        }
        Command::Rotate { end, place } => {
            let file = place.file();
            let keys = if end { file.end_rotation()? } else { file.rotate()? };
            let path = file.path().display();
            println!("{path}: ids, newest first: {}", list(&keys));
            if !end {
                println!(
                    "copy it to every other node, mode 0600; then, on every node: collie replica-key rotate --end"
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
