//! [`Demo`]: a process of `collie demo`, and the lines that it prints.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use postgres::{Client, Config, NoTls};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Stopwatch, nodes::PATIENCE, server::binary};

/// A running demo. When the value is dropped, the demo gets SIGINT, and SIGKILL if it does not end in time.
pub struct Demo {
    child: Child,
    lines: Receiver<String>,
    /// The lines that were read so far.
    pub said: Vec<String>,
}

/// How a demo ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// All lines that it printed on standard output and standard error.
    pub said: Vec<String>,
}

/// The addresses and ports of a demo.
#[derive(Clone, Debug)]
pub struct Places {
    /// The URL of the page.
    pub page: String,
    /// The replica's HTTP address.
    pub replica_http: SocketAddr,
    /// The primary's HTTP address.
    pub primary_http: SocketAddr,
    /// The primary's port for SQL.
    pub primary: u16,
    /// The replica's port for SQL.
    pub replica: u16,
}

impl Demo {
    /// Starts a demo.
    ///
    /// # Panics
    /// If the binary does not start.
    pub fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(binary())
            .arg("demo")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let (told, lines) = mpsc::channel();
        let read = |from: Box<dyn std::io::Read + Send>| {
            let told = told.clone();
            thread::spawn(move || {
                let lines = BufReader::new(from).lines().map_while(Result::ok);
                lines.for_each(|line| {
                    let _nobody_waits = told.send(line);
                });
            });
        };
        read(Box::new(child.stdout.take().expect("standard output is a pipe")));
        read(Box::new(child.stderr.take().expect("standard error is a pipe")));
        Self { child, lines, said: Vec::new() }
    }

    /// Waits for a line that begins with `prefix`, and returns the rest of it.
    ///
    /// # Panics
    /// If the demo ends without such a line, or prints nothing for [`PATIENCE`].
    pub fn until_says(&mut self, prefix: &str) -> String {
        if let Some(rest) = self.said.iter().find_map(|line| line.strip_prefix(prefix)) {
            return rest.to_owned();
        }
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("it does not say {prefix:?}: {:#?}", self.said));
            self.said.push(line.clone());
            if let Some(rest) = line.strip_prefix(prefix) {
                return rest.to_owned();
            }
        }
    }

    /// Waits until the demo's load runs, and returns its addresses and ports.
    ///
    /// # Panics
    /// If the demo does not print them.
    pub fn places(&mut self) -> Places {
        let page = self.until_says("page: ");
        let rest = page.strip_prefix("http://").expect("a page has a URL");
        let (replica_http, primary_http) = rest.split_once("/?primary=").expect("it names the primary");
        let psql = self.until_says("psql -h 127.0.0.1 -p ");
        let (primary, replica) = psql.split_once(" -U collie collie    (the replica: -p ").expect("both ports");
        self.until_says("Ctrl-C stops it");
        Places {
            replica_http: replica_http.parse().expect("an address"),
            primary_http: primary_http.parse().expect("an address"),
            primary: primary.parse().expect("a port"),
            replica: replica.trim_end_matches(')').parse().expect("a port"),
            page,
        }
    }

    /// Returns the process ids and the command lines of its running servers.
    pub fn servers(&self) -> Vec<(u32, String)> {
        children(self.child.id())
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it is gone.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// If it does not end.
    pub fn wait(mut self) -> Ended {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end: {:#?}", self.said),
            }
        }
        let status = self.child.wait().expect("it was not waited for");
        Ended { status, said: std::mem::take(&mut self.said) }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::INT);
            let start = Stopwatch::start();
            while matches!(self.child.try_wait(), Ok(None)) && start.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(20));
            }
            let _ended = self.child.kill();
        }
        let _reaped = self.child.wait();
    }
}

impl Places {
    /// Connects to one of the servers by its port.
    ///
    /// # Panics
    /// If the server accepts no session.
    pub fn connect(&self, port: u16) -> Client {
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user("collie").dbname("collie");
        config.connect(NoTls).expect("the server accepts a session")
    }
}

/// Returns the running children of a process.
fn children(parent: u32) -> Vec<(u32, String)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_parent = pids.filter(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        field("PPid:") == Some(&*parent.to_string()) && !field("State:").is_some_and(|state| state.starts_with('Z'))
    });
    of_parent.map(|pid| (pid, command_line(pid))).collect()
}

/// Returns the command line of a process; empty once it has ended.
fn command_line(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

/// Returns whether the process `pid` still runs with exactly the command line `words`.
pub fn runs(pid: u32, words: &str) -> bool {
    !words.is_empty() && Path::new(&format!("/proc/{pid}")).exists() && command_line(pid) == words
}
