//! `Server`: one running server, Collie's or PostgreSQL's.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::Context;
use postgres::{Client, Config, NoTls};

use crate::{Plan, Scratch};

/// The peer's name in tables.
pub(crate) const PEER: &str = "PostgreSQL";

/// Where Debian has PostgreSQL's programs, by version.
const PACKAGES: &str = "/usr/lib/postgresql";
/// Sets a cluster up.
const CLUSTER: &str = include_str!("../../../../bench/pg_cluster.sh");
/// Whom PostgreSQL runs as where root starts it: it refuses root.
const ACCOUNT: &str = "postgres";
/// Beyond the script's settings: each open sub-transaction holds a lock in PostgreSQL, and 64,000 savepoints are more than its
/// lock table takes by default.
const LOCKS: &str = "max_locks_per_transaction = 1024";
const START: Duration = Duration::from_secs(30);

/// Whose it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Brand {
    Collie,
    PostgreSql,
}

/// A running server on a directory of its own. Dropping it stops it and removes the directory.
pub(crate) struct Server {
    brand: Brand,
    child: Child,
    port: u16,
    /// PostgreSQL's programs, pgbench among them.
    pub(super) bin: PathBuf,
    /// Goes after the server.
    _scratch: Scratch,
}

/// Returns the directory of the newest version that has pgbench.
pub(super) fn postgresql_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(PACKAGES).ok()?.flatten();
    let bins =
        versions.filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin"))));
    bins.filter(|(_, bin)| bin.join("pgbench").is_file()).max().map(|(_, bin)| bin)
}

/// Returns whether this process is root's.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|of| of.uid() == 0)
}

/// Makes a command that goes when this process does, as root's or as nobody special's.
fn command(program: &Path, as_account: bool) -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=QUIT");
    if as_account && is_root() {
        command.args([&format!("--reuid={ACCOUNT}"), &format!("--regid={ACCOUNT}"), "--clear-groups"]);
    }
    command.arg("--").arg(program).stdin(Stdio::null());
    command
}

/// Runs a command that must succeed; its words are in the error when it does not.
fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let done = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {command:?}"))?;
    let words = String::from_utf8_lossy(&done.stderr);
    anyhow::ensure!(done.status.success(), "{}", words.trim().lines().last().unwrap_or("it failed without a word"));
    Ok(())
}

impl Server {
    /// Starts `program` with its defaults.
    ///
    /// # Errors
    /// It does not start, or ends before it listens.
    pub(super) fn collie(plan: &Plan, program: &Path, bin: &Path) -> anyhow::Result<Self> {
        let scratch = Scratch::new(&plan.env, &plan.dir)?;
        let log = std::fs::File::create(scratch.path().join("words"))?;
        let mut child = command(program, false)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(scratch.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let out = child.stdout.take().context("its output is piped")?;
        let listening = BufReader::new(out)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening on ")?.rsplit(':').next()?.parse().ok());
        let Some(port) = listening else {
            // It has ended, or will not say more: nothing is lost.
            let _ended = child.kill().and_then(|()| child.wait());
            let words = std::fs::read_to_string(scratch.path().join("words")).unwrap_or_default();
            anyhow::bail!("{} does not serve: {}", program.display(), words.trim());
        };
        Ok(Self { brand: Brand::Collie, child, port, bin: bin.to_owned(), _scratch: scratch })
    }

    /// Makes a cluster and starts it.
    ///
    /// # Errors
    /// The programs are missing, the account cannot reach the directory, or the cluster does not start.
    pub(super) fn postgresql(plan: &Plan, bin: &Path) -> anyhow::Result<Self> {
        let scratch = Scratch::new(&plan.env, &plan.dir)?;
        // Its programs take the directory from wherever they run.
        let dir = scratch.path().canonicalize()?;
        let (script, data) = (dir.join("pg_cluster.sh"), dir.join("data"));
        std::fs::write(&script, CLUSTER)?;
        if is_root() {
            succeed(Command::new("chown").arg(ACCOUNT).arg(&dir))?;
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut init = command(Path::new("bash"), true);
        init.arg(&script).arg("init").arg(bin).arg(&data).arg(port.to_string()).arg(LOCKS).current_dir(&dir);
        succeed(&mut init)?;
        let log = std::fs::File::create(dir.join("words"))?;
        let child = command(&bin.join("postgres"), true)
            .arg("-D")
            .arg(&data)
            .current_dir(&dir)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let server = Self { brand: Brand::PostgreSql, child, port, bin: bin.to_owned(), _scratch: scratch };
        let begun = plan.now_ns();
        while let Err(error) = server.connect() {
            let waited = u128::from(plan.now_ns() - begun);
            anyhow::ensure!(waited < START.as_nanos(), "it does not start: {error}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Returns its name in tables.
    pub(crate) fn name(&self) -> &'static str {
        match self.brand {
            Brand::Collie => "collie server",
            Brand::PostgreSql => PEER,
        }
    }

    /// Returns where it keeps the log in memory.
    pub(crate) fn ring(&self) -> &'static str {
        match self.brand {
            Brand::Collie => "auto 16 MiB",
            Brand::PostgreSql => "wal_buffers 64 MiB",
        }
    }

    /// Returns whether it is what Collie stands beside.
    pub(crate) fn is_peer(&self) -> bool {
        self.brand == Brand::PostgreSql
    }

    /// Returns `ours` by the peer's, where this is not the peer itself and there is one.
    pub(crate) fn by_peer(&self, ours: f64, theirs: Option<f64>) -> Option<f64> {
        theirs.filter(|_| !self.is_peer()).map(|theirs| ours / theirs)
    }

    /// Returns user and database.
    pub(super) fn account(&self) -> (&'static str, &'static str) {
        match self.brand {
            Brand::Collie => ("collie", "collie"),
            Brand::PostgreSql => ("bench", "postgres"),
        }
    }

    /// Returns its port on 127.0.0.1.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the id of its process; setpriv has become the server.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns how to open a session.
    pub(crate) fn config(&self) -> Config {
        let (user, database) = self.account();
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user(user).dbname(database);
        config
    }

    /// Opens a session.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn connect(&self) -> Result<Client, postgres::Error> {
        self.config().connect(NoTls)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both end sessions that are open at this and stop; if it cannot be sent, the child is killed.
        let signal = if self.is_peer() { "-INT" } else { "-TERM" };
        let asked = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _killed = self.child.kill();
        }
        let _ended = self.child.wait();
    }
}
