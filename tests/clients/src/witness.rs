//! A running witness: `collie witness`.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use collie_netlab::Port;
use tempfile::TempDir;

use crate::server::binary;

/// The directory of a witness and its address, also while it does not run.
pub struct WitnessPlace {
    dir: TempDir,
    port: Port,
}

/// A running witness, which is killed when the value is dropped.
pub struct Witness(Child);

impl WitnessPlace {
    /// Makes a place with the key of all nodes in tests.
    ///
    /// # Panics
    /// When there is no free port, or the directory cannot be made.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("collie-witness-").tempdir().expect("a temporary directory");
        let port = Port::keep().expect("a free port");
        collie_netlab::plant_key(&dir.path().join("key")).expect("a key can be written");
        Self { dir, port }
    }

    /// Returns the address at which the witness listens while it runs.
    pub fn address(&self) -> String {
        self.port.address().to_string()
    }

    /// Returns the directory of the witness.
    pub fn data(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    /// Returns what it wrote to standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Starts the witness, and waits until it listens.
    ///
    /// # Panics
    /// If it does not.
    pub fn start(&self) -> Witness {
        let path = |name: &str| self.dir.path().join(name);
        let log = File::options().create(true).append(true).open(path("log")).expect("a log file");
        let mut child = command(&self.data(), &self.address(), &path("key"))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("standard output is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("standard output can be read");
        let witness = Witness(child);
        assert!(line.starts_with("listening on "), "{line}{}", self.log());
        witness
    }
}

impl Default for WitnessPlace {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the command of a witness.
pub fn command(data: &Path, address: &str, key: &Path) -> Command {
    let mut command = Command::new(binary());
    command.arg("witness").arg("--data").arg(data).args(["--listen", address]).arg("--key-file").arg(key);
    command.stdin(Stdio::null());
    command
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}
