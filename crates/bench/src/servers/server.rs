//! `Server`: one running server, Collie's or PostgreSQL's.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
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

/// How long a replica may take: it copies its primary first.
const FILL: Duration = Duration::from_secs(600);
/// A standby's slot on its primary.
const SLOT: &str = "standby";

/// A running server on a directory of its own. Dropping it stops it, and removes the directory unless somebody else holds it.
pub(crate) struct Server {
    brand: Brand,
    child: Child,
    port: u16,
    /// PostgreSQL's programs, pgbench among them.
    pub(super) bin: PathBuf,
    /// Goes after the server.
    scratch: Arc<Scratch>,
}

/// Returns the directory of the newest version that has pgbench.
pub(crate) fn postgresql_programs() -> Option<PathBuf> {
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

/// Returns the full path of a directory that PostgreSQL can write to.
fn reachable(scratch: &Scratch) -> anyhow::Result<PathBuf> {
    let dir = scratch.path().canonicalize()?;
    if is_root() {
        succeed(Command::new("chown").arg(ACCOUNT).arg(&dir))?;
    }
    Ok(dir)
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Server {
    /// Starts `program` with its defaults.
    ///
    /// # Errors
    /// It does not start, or ends before it listens.
    pub(super) fn collie(plan: &Plan, program: &Path, bin: &Path) -> anyhow::Result<Self> {
        Self::collie_in(Arc::new(Scratch::new(&plan.env, &plan.dir)?), program, bin, &[], START)
    }

    /// Starts `program` in `scratch` with further `arguments`, which have it listen for replicas.
    ///
    /// # Errors
    /// As of [`Self::collie`].
    pub(crate) fn collie_primary(scratch: Arc<Scratch>, program: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        Self::collie_in(scratch, program, Path::new(""), arguments, START)
    }

    /// Starts `program` in `scratch` as a replica of `primary`, filled from it where there is nothing yet.
    ///
    /// # Errors
    /// As of [`Self::collie`]; the primary does not listen for replicas.
    pub(crate) fn collie_replica(
        scratch: Arc<Scratch>,
        program: &Path,
        primary: &Self,
        arguments: &[&str],
    ) -> anyhow::Result<Self> {
        let address = primary.replica_address()?;
        let arguments = [&["--replica-of", &address], arguments].concat();
        Self::collie_in(scratch, program, Path::new(""), &arguments, FILL)
    }

    fn collie_in(
        scratch: Arc<Scratch>,
        program: &Path,
        bin: &Path,
        arguments: &[&str],
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let log = std::fs::File::create(scratch.path().join("words"))?;
        let mut child = command(program, false)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .arg("--data")
            .arg(scratch.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let out = child.stdout.take().context("its output is piped")?;
        let (listens, listening) = mpsc::channel::<u16>();
        // Ends with the server.
        let _reader = std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.filter_map(|line| line.strip_prefix("listening on ")?.rsplit(':').next()?.parse().ok()).for_each(
                |port| {
                    // Nobody waits any more.
                    let _late = listens.send(port);
                },
            );
        });
        let Ok(port) = listening.recv_timeout(patience) else {
            // It has ended, or will not say more: nothing is lost.
            let _ended = child.kill().and_then(|()| child.wait());
            let words = std::fs::read_to_string(scratch.path().join("words")).unwrap_or_default();
            anyhow::bail!("{} does not serve: {}", program.display(), words.trim());
        };
        Ok(Self { brand: Brand::Collie, child, port, bin: bin.to_owned(), scratch })
    }

    /// Makes a cluster and starts it.
    ///
    /// # Errors
    /// The programs are missing, the account cannot reach the directory, or the cluster does not start.
    pub(crate) fn postgresql(plan: &Plan, bin: &Path) -> anyhow::Result<Self> {
        let scratch = Arc::new(Scratch::new(&plan.env, &plan.dir)?);
        let dir = reachable(&scratch)?;
        let (script, data) = (dir.join("pg_cluster.sh"), dir.join("data"));
        std::fs::write(&script, CLUSTER)?;
        let port = free_port()?;
        let mut init = command(Path::new("bash"), true);
        init.arg(&script).arg("init").arg(bin).arg(&data).arg(port.to_string()).arg(LOCKS).current_dir(&dir);
        succeed(&mut init)?;
        Self::postgresql_in(plan, scratch, bin, port)
    }

    /// Copies `primary` at so many bytes a second at the most, and starts the copy as a hot standby that follows it, with a slot.
    ///
    /// # Errors
    /// As of [`Self::postgresql`].
    pub(crate) fn postgresql_standby(plan: &Plan, primary: &Self, bytes_per_s: u64) -> anyhow::Result<Self> {
        let scratch = Arc::new(Scratch::new(&plan.env, &plan.dir)?);
        let (dir, port) = (reachable(&scratch)?, free_port()?);
        let mut copy = command(&primary.bin.join("pg_basebackup"), true);
        copy.args(["-h", "127.0.0.1", "-U", "bench", "-X", "stream", "-c", "fast", "-R", "-C", "-S", SLOT, "-p"]);
        copy.arg(primary.port.to_string()).arg("-D").arg(dir.join("data")).current_dir(&dir);
        // Within what it takes.
        copy.arg(format!("--max-rate={}k", (bytes_per_s >> 10).clamp(32, 1 << 20)));
        succeed(&mut copy)?;
        let settings = dir.join("data/postgresql.conf");
        // The last one counts.
        let text = std::fs::read_to_string(&settings)? + &format!("port = {port}\n");
        std::fs::write(&settings, text)?;
        Self::postgresql_in(plan, scratch, &primary.bin, port)
    }

    fn postgresql_in(plan: &Plan, scratch: Arc<Scratch>, bin: &Path, port: u16) -> anyhow::Result<Self> {
        // Its programs take the directory from wherever they run.
        let dir = scratch.path().canonicalize()?;
        let log = std::fs::File::create(dir.join("words"))?;
        let child = command(&bin.join("postgres"), true)
            .arg("-D")
            .arg(dir.join("data"))
            .current_dir(&dir)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let server = Self { brand: Brand::PostgreSql, child, port, bin: bin.to_owned(), scratch };
        let begun = plan.now_ns();
        while let Err(error) = server.connect() {
            let waited = u128::from(plan.now_ns() - begun);
            anyhow::ensure!(waited < START.as_nanos(), "it does not start: {error}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Starts the standby that was in `scratch` again, on the port it had.
    ///
    /// # Errors
    /// As of [`Self::postgresql`].
    pub(crate) fn postgresql_again(plan: &Plan, scratch: Arc<Scratch>, bin: &Path, port: u16) -> anyhow::Result<Self> {
        Self::postgresql_in(plan, scratch, bin, port)
    }

    /// Returns its directory, which then outlives it.
    pub(crate) fn scratch(&self) -> Arc<Scratch> {
        Arc::clone(&self.scratch)
    }

    /// Returns where it listens for replicas, as it said.
    ///
    /// # Errors
    /// It has not said so.
    pub(crate) fn replica_address(&self) -> anyhow::Result<String> {
        let words = self.words();
        let address = words.lines().find_map(|line| line.strip_prefix("listening for replicas on "));
        address.map(str::to_owned).with_context(|| format!("it does not listen for replicas: {words}"))
    }

    /// Returns what it has said so far.
    pub(crate) fn words(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join("words")).unwrap_or_default()
    }

    /// Ends it at once, as a crash would.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        let _status = self.child.wait()?;
        Ok(())
    }

    /// Returns where its files are.
    pub(crate) fn directory(&self) -> &Path {
        self.scratch.path()
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
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns where its programs are, if it is PostgreSQL.
    pub(crate) fn programs(&self) -> &Path {
        &self.bin
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
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return; // it was killed
        }
        // Both end sessions that are open at this and stop; if it cannot be sent, the child is killed.
        let signal = if self.is_peer() { "-INT" } else { "-TERM" };
        let asked = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _killed = self.child.kill();
        }
        let _ended = self.child.wait();
    }
}
