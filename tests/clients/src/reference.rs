//! A private PostgreSQL 15 to compare with: its own cluster in a temporary directory, reachable by a Unix socket only.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use postgres::{Client, Config, NoTls};
use tempfile::TempDir;

use crate::{
    program::{Done, run, run_merged},
    session::PATIENCE,
    stopwatch::Stopwatch,
};

/// The directory of Debian's binaries of the version that Collie follows.
const BIN: &str = "/usr/lib/postgresql/15/bin";
/// The Debian package that contains them.
pub const PACKAGE: &str = "postgresql-15";

/// A running cluster, which is stopped and removed when the value is dropped.
pub struct Reference {
    child: Child,
    dir: TempDir,
}

impl Reference {
    /// Starts a cluster, or returns `None` if the binaries are not installed.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start() -> Option<Self> {
        if !Path::new(BIN).join("initdb").is_file() {
            return None;
        }
        // The path is short because a Unix socket's path has at most 107 bytes.
        let dir = tempfile::Builder::new().prefix("collie-pg-").tempdir().expect("a temporary directory");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("own directory");
        let data = dir.path().join("data");
        let made = Self::command("initdb")
            .args(["--locale=C", "--encoding=UTF8", "-A", "trust", "-U", "collie", "--no-sync", "-D"])
            .arg(&data)
            .current_dir(dir.path())
            .output()
            .expect("initdb starts");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let child = Self::command("postgres")
            .args(["-c", "fsync=off", "-c", "listen_addresses=", "-c", "timezone=UTC", "-k"])
            .arg(dir.path())
            .arg("-D")
            .arg(&data)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("postgres starts");
        let cluster = Self { child, dir };
        let watch = Stopwatch::start();
        while cluster.psql(&["-d", "postgres", "-c", "CREATE DATABASE collie TEMPLATE template0"], "").code != Some(0) {
            assert!(watch.elapsed() < PATIENCE, "PostgreSQL did not start in {}", cluster.dir.path().display());
        }
        Some(cluster)
    }

    /// Returns a command of PostgreSQL. PostgreSQL refuses to run as root; root runs it as the user postgres.
    fn command(name: &str) -> Command {
        let program = PathBuf::from(BIN).join(name);
        if rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL"]).arg(program);
            command
        } else {
            Command::new(program)
        }
    }

    /// Returns the driver's configuration for the cluster.
    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host_path(self.dir.path()).user("collie").dbname("collie");
        config
    }

    /// Opens a session with the driver.
    ///
    /// # Panics
    /// When it cannot connect.
    pub fn connect(&self) -> Client {
        self.config().connect(NoTls).expect("PostgreSQL accepts a session")
    }

    /// Runs psql on the cluster.
    pub fn psql(&self, arguments: &[&str], script: &str) -> Done {
        let host = self.dir.path().display().to_string();
        let mut all = vec!["-X", "-w", "-h", &host, "-U", "collie"];
        all.extend(arguments);
        run(&PathBuf::from(BIN).join("psql"), &all, &[], script)
    }

    /// Runs psql on the cluster with standard error merged into standard output.
    pub fn merged(&self, arguments: &[&str], script: &str) -> Done {
        let host = self.dir.path().display().to_string();
        let mut all = vec!["-X", "-w", "-h", &host, "-U", "collie"];
        all.extend(arguments);
        run_merged(&PathBuf::from(BIN).join("psql"), &all, script)
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // SIGQUIT stops the server and its child processes at once; the cluster is discarded anyway.
        let _ =
            rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::QUIT);
        let _ = self.child.wait();
    }
}
