//! [`Node`]: a server of the demo: this program again, as a process of its own.

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

/// How long a server may take to listen: far beyond what it takes.
const START: Duration = Duration::from_secs(120);
/// How long it may take to stop in order before it is killed.
const STOP: Duration = Duration::from_secs(30);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(50);

/// What both are started with: a size at which a demo that was forgotten ends, and no memory that outlives them.
const SETTINGS: &[(&str, &str)] = &[("wal.ring", "private"), ("store.memory_limit", "1GiB")];

/// Has reads replayed, samples taken and models fitted within a minute in place of an hour. Keys that this server has not are left out:
/// `collie config` has those that there are.
const HURRY: &[(&str, &str)] =
    &[("training.read_share", "0.5"), ("training.fit_interval", "20s"), ("training.shadow_time", "20s")];

/// What it is.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// It leads; SQL clients are served there.
    Primary { listen: SocketAddr },
    /// It follows who listens for replicas at `primary`, whose key is in the file `key`; its page is at `http`.
    Replica { http: SocketAddr, primary: String, key: PathBuf },
}

/// A server. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Node {
    name: &'static str,
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

/// Returns the last thing that a server said, which says why it ended.
fn last_words(log: &str) -> &str {
    let mut lines = log.lines().rev().filter(|line| !line.trim().is_empty());
    let last = lines.clone().next().unwrap_or("it said nothing");
    let error = lines.find_map(|line| line.strip_prefix("error: "));
    error.unwrap_or(log_lines::text_of(last))
}

/// Returns what follows `prefix` in the last whole line that begins with it.
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
    /// Starts a server in `dir` and waits until it listens. Its words go to a file beside its data.
    ///
    /// # Errors
    /// It does not come to listen; with the last that it said.
    ///
    /// # Cancel safety
    /// Dropping the future kills it.
    pub(super) async fn start(name: &'static str, role: &Role, dir: &Path, clock: &dyn Clock) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("this program is not found")?;
        let log = dir.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("cannot make {}", log.display()))?;
        let child = Command::new(program)
            .args(["serve", "--with-parent", &std::process::id().to_string(), "--data"])
            .arg(dir.join(name))
            .args(arguments(role))
            // Ctrl-C is the demo's: it stops the load before the servers.
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

    /// Returns where SQL clients are served.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns how clients name it.
    pub(super) fn url(&self) -> String {
        format!("postgresql://collie@{}/collie", self.address)
    }

    /// Returns where its page is.
    pub(super) fn http_address(&self) -> Option<String> {
        said(&self.words(), "listening for HTTP on ").map(str::to_owned)
    }

    /// Returns where it listens for replicas.
    ///
    /// # Errors
    /// It did not say so.
    pub(super) fn replica_address(&self) -> anyhow::Result<String> {
        let words = self.words();
        let address = said(&words, "listening for replicas on ");
        address.map(str::to_owned).with_context(|| format!("the {} does not listen for replicas", self.name))
    }

    /// Waits until it has ended, and returns how.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return self.fate(status),
                Ok(None) => sleep(LOOK).await,
                Err(error) => return anyhow::Error::new(error).context(format!("the {} is lost", self.name)),
            }
        }
    }

    /// Stops it in order; kills it if that takes too long.
    ///
    /// # Errors
    /// It failed in stopping.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_none() {
            // It may end just now.
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
        // Fails where it has ended, which is as well.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what a server said of its end is told: its error, else its last line; a line that is being written is none yet. Method: logs
    /// of each kind.
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
            crate::serve::settings(None, &set).unwrap();
            for name in SETTINGS.iter().map(|(name, _)| name) {
                assert!(set.iter().any(|pair| pair.starts_with(&format!("{name}="))), "{name}: {set:?}");
            }
        }
    }
}
