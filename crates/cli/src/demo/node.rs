//! [`Node`]: a server of the demo: this program, started again in its own process.

use std::{
    fs::File,
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use collie_env::Clock;
use collie_server::{config::KEYS, log_lines};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{sleep, timeout};

/// How long a server may take to listen: far more than it needs.
const START: Duration = Duration::from_secs(120);
/// How long a server may take to stop in order before it is killed.
const STOP: Duration = Duration::from_secs(30);
/// Time between two polls of a server.
const LOOK: Duration = Duration::from_millis(50);

/// Settings of both servers: a memory limit at which a forgotten demo ends, and no memory that outlives the processes.
const SETTINGS: &[(&str, &str)] = &[("wal.ring", "private"), ("store.memory_limit", "1GiB")];

/// Settings that let reads be replayed, samples be taken and models be fitted within a minute instead of an hour. Keys
/// that this version of the server does not know (`collie config` lists the known ones) are left out.
const HURRY: &[(&str, &str)] =
    &[("training.read_share", "0.5"), ("training.fit_interval", "20s"), ("training.shadow_time", "20s")];

/// The role of a node.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// It leads and serves SQL clients at `listen`.
    Primary { listen: SocketAddr },
    /// It follows the primary that listens for replicas at `primary`, with the key in the file `key`; its page is at
    /// `http`.
    Replica { http: SocketAddr, primary: String, key: PathBuf },
}

/// A server process. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct Node {
    name: &'static str,
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

/// Returns the last error in a server's log, or else its last line: why the server ended.
fn last_words(log: &str) -> &str {
    let mut lines = log.lines().rev().filter(|line| !line.trim().is_empty());
    let last = lines.clone().next().unwrap_or("it said nothing");
    let error = lines.find_map(|line| line.strip_prefix("error: "));
    error.unwrap_or(log_lines::text_of(last))
}

/// Returns the text after `prefix` in the last complete line that begins with it.
fn said<'l>(log: &'l str, prefix: &str) -> Option<&'l str> {
    let whole = &log[..log.rfind('\n').map_or(0, |end| end + 1)];
    whole.lines().rev().find_map(|line| log_lines::text_of(line).strip_prefix(prefix))
}

fn arguments(role: &Role) -> Vec<String> {
    let free = || "127.0.0.1:0".to_owned();
    let mut all: Vec<String> = match role {
        Role::Primary { listen } => [
            ["--listen".to_owned(), listen.to_string()],
            ["--http".to_owned(), free()],
            ["--replica-listen".to_owned(), free()],
        ]
        .concat(),
        Role::Replica { http, primary, key } => [
            ["--listen".to_owned(), free()],
            ["--http".to_owned(), http.to_string()],
            ["--replica-of".to_owned(), primary.clone()],
            ["--set".to_owned(), "replication.slot=demo".to_owned()],
            ["--set".to_owned(), format!("replication.key_file={}", key.display())],
        ]
        .concat(),
    };
    let known = |name: &str| KEYS.iter().any(|key| key.name == name);
    for (name, value) in SETTINGS.iter().chain(HURRY).filter(|(name, _)| known(name)) {
        all.extend(["--set".to_owned(), format!("{name}={value}")]);
    }
    all
}

impl Node {
    /// Starts a server in `dir` and waits until it listens. Its output goes to a file next to its data.
    ///
    /// # Errors
    /// The server does not start to listen; the error has its last message.
    ///
    /// # Cancel safety
    /// Dropping the future kills the server.
    pub(super) async fn start(name: &'static str, role: &Role, dir: &Path, clock: &dyn Clock) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("this program is not found")?;
        let log = dir.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("cannot make {}", log.display()))?;
        let child = Command::new(program)
            .args(["serve", "--with-parent", &std::process::id().to_string(), "--data"])
            .arg(dir.join(name))
            .args(arguments(role))
            // Ctrl-C is for the demo, which stops the load before the servers.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start the {name}"))?;
        let mut node = Self { name, child, address: SocketAddr::from(([127, 0, 0, 1], 0)), log };
        let begun_ns = clock.now_ns();
        loop {
            let ended = node.child.try_wait()?;
            if let Some(address) = said(&node.words(), "listening on ") {
                node.address = address.parse().with_context(|| format!("the {name} listens on {address}"))?;
                return Ok(node);
            }
            if let Some(status) = ended {
                return Err(node.fate(status));
            }
            let waited = Duration::from_nanos(clock.now_ns().saturating_sub(begun_ns));
            anyhow::ensure!(waited < START, "the {name} does not listen: {}", last_words(&node.words()));
            sleep(LOOK).await;
        }
    }

    fn words(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn fate(&self, status: ExitStatus) -> anyhow::Error {
        anyhow::anyhow!("the {} has ended ({status}): {}", self.name, last_words(&self.words()))
    }

    /// Returns the address at which SQL clients are served.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients.
    pub(super) fn url(&self) -> String {
        format!("postgresql://collie@{}/collie", self.address)
    }

    /// Returns the address of its page.
    pub(super) fn http_address(&self) -> Option<String> {
        said(&self.words(), "listening for HTTP on ").map(str::to_owned)
    }

    /// Returns the address at which it listens for replicas.
    ///
    /// # Errors
    /// The server did not print it.
    pub(super) fn replica_address(&self) -> anyhow::Result<String> {
        let words = self.words();
        let address = said(&words, "listening for replicas on ");
        address.map(str::to_owned).with_context(|| format!("the {} does not listen for replicas", self.name))
    }

    /// Waits until the process has ended, and returns how.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future loses nothing.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return self.fate(status),
                Ok(None) => sleep(LOOK).await,
                Err(error) => return anyhow::Error::new(error).context(format!("the {} is lost", self.name)),
            }
        }
    }

    /// Stops the server in order; kills it if that takes too long.
    ///
    /// # Errors
    /// The server ended with a failure, or had to be killed.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_none() {
            // It may end right now.
            let _gone = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        let _late = timeout(STOP, self.ended()).await;
        match self.child.try_wait()? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.fate(status)),
            None => anyhow::bail!("the {} did not stop within {} s and was killed", self.name, STOP.as_secs()),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Fails if the process has ended, which is fine.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the reported end of a server is its error, or else its last line; a line that is still being written does
    /// not count. Method: logs of each kind.
    #[test]
    fn last_words_are_the_error_if_there_is_one() {
        let log = "listening for HTTP on 127.0.0.1:1\nerror: 127.0.0.1:2 is in use\n\n";
        assert_eq!(last_words(log), "127.0.0.1:2 is in use");
        assert_eq!([last_words(""), last_words("one\ntwo\n")], ["it said nothing", "two"]);
        assert_eq!(said(log, "listening for HTTP on "), Some("127.0.0.1:1"));
        assert_eq!(said("listening on 127.0.0.1:54", "listening on "), None);
    }

    /// Goal: servers are started with settings that they know. Method: the settings of both roles, each looked up.
    #[test]
    fn servers_know_the_settings_of_the_demo() {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let replica = Role::Replica { http: free, primary: "127.0.0.1:1".to_owned(), key: "key".into() };
        for role in [Role::Primary { listen: free }, replica] {
            let all = arguments(&role);
            let set: Vec<_> = all.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1].clone()).collect();
            collie::serve::settings(None, &set).unwrap();
            for name in SETTINGS.iter().map(|(name, _)| name) {
                assert!(set.iter().any(|pair| pair.starts_with(&format!("{name}="))), "{name}: {set:?}");
            }
        }
    }
}
