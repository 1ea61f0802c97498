//! `Server`: one running server, Collie's or PostgreSQL's.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    time::Duration,
};

use anyhow::Context;
use collie_replica::key::KEY_FILE;
use collie_server::log_lines;
use postgres::{Client, Config, NoTls};

use super::change;
use crate::{Plan, Scratch};

/// The peer's name in tables.
pub(crate) const PEER: &str = "PostgreSQL";

/// The directory of PostgreSQL's programs in Debian, by version.
const PACKAGES: &str = "/usr/lib/postgresql";
/// The script that sets up a cluster.
const CLUSTER: &str = include_str!("../../../../bench/pg_cluster.sh");
/// The account of PostgreSQL if root starts it, since it refuses to run as root.
const ACCOUNT: &str = "postgres";
/// An addition to the script's settings: each open subtransaction holds a lock in PostgreSQL, and 64,000 savepoints
/// exceed its default lock table.
const LOCKS: &str = "max_locks_per_transaction = 1024";
const START: Duration = Duration::from_secs(30);

/// The product of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Brand {
    Collie,
    PostgreSql,
}

/// Time limit for a replica to start, which copies its primary first. A server of the peer gets the same time.
const FILL: Duration = Duration::from_secs(600);
/// The number of ports that are tried.
const PORTS: u32 = 5;
/// A standby's slot on its primary.
const SLOT: &str = "standby";

/// A running server in its own directory. Dropping it stops it, and removes the directory unless another holder exists.
pub(crate) struct Server {
    brand: Brand,
    child: Child,
    port: u16,
    /// The directory of PostgreSQL's programs, including pgbench.
    pub(super) bin: PathBuf,
    /// Dropped after the server.
    scratch: Arc<Scratch>,
}

/// Returns the directory of the newest version that has pgbench.
pub(crate) fn postgresql_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(PACKAGES).ok()?.flatten();
    let bins =
        versions.filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin"))));
    bins.filter(|(_, bin)| bin.join("pgbench").is_file()).max().map(|(_, bin)| bin)
}

/// Returns whether this process runs as root.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|of| of.uid() == 0)
}

/// Returns `command` pinned to `core`, with all its threads.
fn pinned(command: &Command, core: usize) -> Command {
    let mut pinned = Command::new("taskset");
    pinned.args(["--cpu-list", &core.to_string()]).arg(command.get_program()).args(command.get_args());
    pinned
}

/// Creates a command that ends when this process does; with `as_account` it runs as [`ACCOUNT`] if this process is
/// root's.
fn command(program: &Path, as_account: bool) -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=QUIT");
    if as_account && is_root() {
        command.args([&format!("--reuid={ACCOUNT}"), &format!("--regid={ACCOUNT}"), "--clear-groups"]);
    }
    command.arg("--").arg(program).stdin(Stdio::null());
    command
}

/// Runs a command that must succeed; the error contains the last line of its output.
fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let done = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {command:?}"))?;
    let words = String::from_utf8_lossy(&done.stderr);
    anyhow::ensure!(done.status.success(), "{}", words.trim().lines().last().unwrap_or("it failed without a word"));
    Ok(())
}

/// Returns the full path of a directory, after making it writable for PostgreSQL.
fn reachable(scratch: &Scratch) -> anyhow::Result<PathBuf> {
    let dir = scratch.path().canonicalize()?;
    if is_root() {
        succeed(Command::new("chown").arg(ACCOUNT).arg(&dir))?;
    }
    Ok(dir)
}

/// Returns a port on which no process listens now.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Server {
    /// Starts Collie with its defaults and further `arguments`.
    ///
    /// # Errors
    /// The program does not start, or ends before it listens.
    pub(super) fn collie(plan: &Plan, bin: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        Self::collie_in(plan, Arc::new(Scratch::new(&plan.env, &plan.dir)?), bin, arguments, (None, START))
    }

    /// Starts Collie in `scratch` with further `arguments`, such as those that make it listen for replicas; pinned
    /// to `core`, if given.
    ///
    /// # Errors
    /// Those of [`Self::collie`].
    pub(crate) fn collie_primary(
        plan: &Plan,
        scratch: Arc<Scratch>,
        arguments: &[&str],
        core: Option<usize>,
    ) -> anyhow::Result<Self> {
        Self::collie_in(plan, scratch, Path::new(""), arguments, (core, START))
    }

    /// Starts Collie in `scratch` as a replica of `primary`, which listens for it at `address`. An empty directory
    /// is filled from the primary.
    ///
    /// # Errors
    /// Those of [`Self::collie`].
    pub(crate) fn collie_replica(
        plan: &Plan,
        scratch: Arc<Scratch>,
        (primary, address): (&Self, &str),
        arguments: &[&str],
        core: Option<usize>,
    ) -> anyhow::Result<Self> {
        let data = scratch.path().join("data");
        if !data.exists() {
            std::fs::DirBuilder::new().mode(0o700).create(&data)?;
            // The copy keeps the mode of the file.
            let copied = std::fs::copy(primary.directory().join("data").join(KEY_FILE), data.join(KEY_FILE));
            copied.context("the primary's replication key")?;
        }
        let arguments = [&["--replica-of", address], arguments].concat();
        Self::collie_in(plan, scratch, Path::new(""), &arguments, (core, FILL))
    }

    fn collie_in(
        plan: &Plan,
        scratch: Arc<Scratch>,
        bin: &Path,
        arguments: &[&str],
        (core, patience): (Option<usize>, Duration),
    ) -> anyhow::Result<Self> {
        let (program, serve) = change::program(plan, arguments)?;
        let log = std::fs::File::create(scratch.path().join("words"))?;
        let mut command = command(program, false);
        if let Some(core) = core {
            command = pinned(&command, core);
        }
        let mut child = command
            .stdin(Stdio::null())
            .args([serve, "--listen", "127.0.0.1:0"])
            .args(arguments)
            .arg("--data")
            .arg(scratch.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let out = child.stdout.take().context("its output is piped")?;
        let (listens, listening) = mpsc::channel::<u16>();
        // The thread ends with the server.
        let _reader = std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.filter_map(|line| line.strip_prefix("listening on ")?.rsplit(':').next()?.parse().ok()).for_each(
                |port| {
                    // The receiver may be gone.
                    let _late = listens.send(port);
                },
            );
        });
        let Ok(port) = listening.recv_timeout(patience) else {
            // The server has ended or does not become ready; killing it loses nothing.
            let _ended = child.kill().and_then(|()| child.wait());
            let words = std::fs::read_to_string(scratch.path().join("words")).unwrap_or_default();
            anyhow::bail!("{} does not serve: {}", program.display(), words.trim());
        };
        Ok(Self { brand: Brand::Collie, child, port, bin: bin.to_owned(), scratch })
    }

    /// Creates a cluster and starts it.
    ///
    /// # Errors
    /// The programs are missing, the account cannot reach the directory, or the cluster does not start.
    pub(crate) fn postgresql(plan: &Plan, bin: &Path) -> anyhow::Result<Self> {
        let scratch = Arc::new(Scratch::new(&plan.env, &plan.dir)?);
        let dir = reachable(&scratch)?;
        let (script, data) = (dir.join("pg_cluster.sh"), dir.join("data"));
        std::fs::write(&script, CLUSTER)?;
        let mut init = command(Path::new("bash"), true);
        // Each start sets its own port.
        init.arg(&script).arg("init").arg(bin).arg(&data).arg("5432").arg(LOCKS).current_dir(&dir);
        succeed(&mut init)?;
        Self::postgresql_in(plan, scratch, bin)
    }

    /// Copies `primary` at `bytes_per_s` at most, and starts the copy as a hot standby that follows it, with a slot.
    ///
    /// # Errors
    /// Those of [`Self::postgresql`].
    pub(crate) fn postgresql_standby(plan: &Plan, primary: &Self, bytes_per_s: u64) -> anyhow::Result<Self> {
        let scratch = Arc::new(Scratch::new(&plan.env, &plan.dir)?);
        let dir = reachable(&scratch)?;
        let mut copy = command(&primary.bin.join("pg_basebackup"), true);
        copy.args(["-h", "127.0.0.1", "-U", "bench", "-X", "stream", "-c", "fast", "-R", "-C", "-S", SLOT, "-p"]);
        copy.arg(primary.port.to_string()).arg("-D").arg(dir.join("data")).current_dir(&dir);
        // Within the limits of the option.
        copy.arg(format!("--max-rate={}k", (bytes_per_s >> 10).clamp(32, 1 << 20)));
        succeed(&mut copy)?;
        Self::postgresql_in(plan, scratch, &primary.bin)
    }

    /// Starts the cluster in `scratch` on its own port.
    ///
    /// # Errors
    /// It ends on every port that is tried, or is not ready for a long time; the error contains its output.
    pub(crate) fn postgresql_in(plan: &Plan, scratch: Arc<Scratch>, bin: &Path) -> anyhow::Result<Self> {
        Self::postgresql_at(plan, &scratch, bin, free_port)
    }

    /// Starts it like [`Self::postgresql_in`]. Another process may take a port between its choice and its use; then
    /// another port is tried.
    fn postgresql_at(
        plan: &Plan,
        scratch: &Arc<Scratch>,
        bin: &Path,
        mut port: impl FnMut() -> anyhow::Result<u16>,
    ) -> anyhow::Result<Self> {
        let mut tried = 0;
        loop {
            let mut server = Self::postgresql_on(scratch, bin, port()?)?;
            let begun = plan.now_ns();
            while server.child.try_wait()?.is_none() {
                // Nothing is sent to the port before it is known to be this server's.
                if server.is_ready() {
                    return Ok(server);
                }
                let waited = u128::from(plan.now_ns() - begun);
                anyhow::ensure!(waited < FILL.as_nanos(), "it is not ready: {}", server.words().trim());
                std::thread::sleep(Duration::from_millis(20));
            }
            tried += 1;
            anyhow::ensure!(tried < PORTS, "it does not start: {}", server.words().trim());
        }
    }

    /// Returns whether this process of PostgreSQL, not one that was killed here before, has reported that it accepts
    /// sessions. The first line of its pid file is its process id, the eighth its state.
    fn is_ready(&self) -> bool {
        let said = std::fs::read_to_string(self.scratch.path().join("data/postmaster.pid")).unwrap_or_default();
        let [number, state] = [0, 7].map(|line| said.lines().nth(line).unwrap_or_default().trim());
        number == self.child.id().to_string() && matches!(state, "ready" | "standby")
    }

    fn postgresql_on(scratch: &Arc<Scratch>, bin: &Path, port: u16) -> anyhow::Result<Self> {
        // An absolute path, since the programs change their working directory.
        let dir = scratch.path().canonicalize()?;
        let log = std::fs::File::create(dir.join("words"))?;
        let child = command(&bin.join("postgres"), true)
            .arg("-D")
            .arg(dir.join("data"))
            .arg("-p")
            .arg(port.to_string())
            .current_dir(&dir)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Self { brand: Brand::PostgreSql, child, port, bin: bin.to_owned(), scratch: Arc::clone(scratch) })
    }

    /// Returns its directory; holding it keeps the directory after the server is dropped.
    pub(crate) fn scratch(&self) -> Arc<Scratch> {
        Arc::clone(&self.scratch)
    }

    /// Returns the address on which it listens for replicas, from its output.
    ///
    /// # Errors
    /// It has not reported one.
    pub(crate) fn replica_address(&self) -> anyhow::Result<String> {
        let words = self.words();
        let address =
            words.lines().find_map(|line| log_lines::text_of(line).strip_prefix("listening for replicas on "));
        address.map(str::to_owned).with_context(|| format!("it does not listen for replicas: {words}"))
    }

    /// Returns its output so far.
    pub(crate) fn words(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join("words")).unwrap_or_default()
    }

    /// Kills it, as a crash would.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        let _status = self.child.wait()?;
        Ok(())
    }

    /// Returns the directory of its files.
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

    /// Returns whether it is the peer with which Collie is compared.
    pub(crate) fn is_peer(&self) -> bool {
        self.brand == Brand::PostgreSql
    }

    /// Returns `ours` divided by the peer's figure, if this is not the peer itself and there is a peer.
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

    /// Returns the directory of its programs, if it is PostgreSQL.
    pub(crate) fn programs(&self) -> &Path {
        &self.bin
    }

    /// Returns the id of its process; setpriv has replaced itself by the server.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the configuration for a session.
    pub(crate) fn config(&self) -> Config {
        let (user, database) = self.account();
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user(user).dbname(database);
        config
    }

    /// Opens a session.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn connect(&self) -> Result<Client, postgres::Error> {
        self.config().connect(NoTls)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return; // it was killed
        }
        // At this signal both end open sessions and stop; if it cannot be sent, the child is killed.
        let signal = if self.is_peer() { "-INT" } else { "-TERM" };
        let asked = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _killed = self.child.kill();
        }
        let _ended = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a port that another process took meanwhile does not end a measurement (T123). Method: the first port is in
    /// use by a listener that never answers; the next one is free.
    #[test]
    fn a_port_that_is_taken_is_not_the_end() {
        let Some(bin) = postgresql_programs() else {
            assert!(std::env::var_os("COLLIE_REQUIRE_LAB").is_none(), "PostgreSQL is not installed");
            return;
        };
        // The account of PostgreSQL must be able to reach the directory.
        let plan = Plan::new(Path::new("/var/tmp"), crate::Pace::Touch);
        let first = Server::postgresql(&plan, &bin).unwrap();
        let scratch = first.scratch();
        first.kill().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ports = vec![free_port().unwrap(), taken.local_addr().unwrap().port()];
        let again = Server::postgresql_at(&plan, &scratch, &bin, || Ok(ports.pop().unwrap())).unwrap();
        assert!(ports.is_empty(), "the port that is taken was not tried");
        assert_eq!(again.connect().unwrap().query_one("SELECT 1", &[]).unwrap().get::<_, i32>(0), 1);
        let refused = Server::postgresql_at(&plan, &scratch, &bin, || Ok(taken.local_addr().unwrap().port()));
        let said = refused.err().unwrap().to_string();
        assert!(said.starts_with("it does not start: ") && said.contains("postmaster.pid"), "{said}");
    }
}
