//! `Server`: the binary under test, which tests start, wait for, stop and kill.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use postgres::{Client, Config, NoTls};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{session::PATIENCE, stopwatch::Stopwatch};

/// A server that runs longer than this is killed, since its test hangs. It is above the sum of all waits of one test,
/// also on a busy machine.
pub const LIFE: Duration = Duration::from_secs(300);

/// Returns the path of the server's binary: `$COLLIE_BIN`, or the one that Cargo built next to the tests.
///
/// # Panics
/// If there is no such file.
pub fn binary() -> PathBuf {
    let path = std::env::var_os("COLLIE_BIN").map(PathBuf::from).unwrap_or_else(|| {
        let test = std::env::current_exe().expect("a running test knows its path");
        let folder = test.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
        folder.join("collie")
    });
    assert!(path.is_file(), "{} is not there: cargo build -p collie, or set COLLIE_BIN", path.display());
    path
}

/// A data directory and a log file, which are removed when the value is dropped.
pub struct Place {
    dir: TempDir,
    /// The directory of the servers' shared log rings, which a killed server leaves behind.
    rings: TempDir,
}

impl Place {
    /// Makes an empty place.
    ///
    /// # Panics
    /// When the temporary directory cannot be made.
    pub fn new() -> Self {
        let make = |dir: &Path| tempfile::Builder::new().prefix("collie-clients-").tempdir_in(dir);
        let dir = make(&std::env::temp_dir()).expect("a temporary directory");
        let rings = make("/dev/shm".as_ref()).or_else(|_| make(&std::env::temp_dir())).expect("a temporary directory");
        let place = Self { dir, rings };
        collie_netlab::plant_key(&key_beside(&place.data())).expect("a key can be written");
        place
    }

    /// Returns the path of the data directory, which the server creates.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Returns the path of a file next to the data directory.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the rest of the last line of the server's log whose text begins with `prefix`.
    fn said_last(&self, prefix: &str) -> Option<String> {
        let log = self.log();
        // A line that is still being written does not count.
        let whole = &log[..log.rfind('\n').map_or(0, |end| end + 1)];
        let text = |line: &'_ str| line.split_once(" UTC LOG:  ").map(|(_, text)| text.to_owned());
        whole.lines().rev().filter_map(text).find_map(|text| text.strip_prefix(prefix).map(str::to_owned))
    }

    /// Returns what the servers in this place wrote to standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.beside("log")).unwrap_or_default()
    }

    /// Waits until the log of the servers in this place contains `what`. A wait is needed because a log line is written
    /// after the event that it reports.
    ///
    /// # Panics
    /// If it does not appear in time; the message has the log.
    pub fn until_said(&self, what: &str) {
        let start = Stopwatch::start();
        while !self.log().contains(what) {
            assert!(start.elapsed() < PATIENCE, "it does not say {what:?}: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

/// A server that was started and may not listen yet: a replica listens once its base backup is there.
pub struct Starting {
    child: Child,
    /// Dropping it ends the watchdog.
    alive: Sender<()>,
}

impl Starting {
    /// Starts a server as [`Server::start_under`] does, without waiting for it.
    ///
    /// # Panics
    /// If the binary does not start.
    pub fn begin(place: &Place, wrapper: &[&str], arguments: &[&str]) -> Self {
        let log = File::options().create(true).append(true).open(place.beside("log")).expect("a log file");
        let mut command = match wrapper {
            [] => Command::new(binary()),
            [program, first @ ..] => {
                let mut command = Command::new(program);
                command.args(first).arg(binary());
                command
            }
        };
        let child = serve_by(&mut command, &place.data())
            .args(["--set", &format!("wal.ring_dir={}", place.rings.path().display())])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let (alive, dead) = mpsc::channel();
        let pid = pid_of(&child);
        thread::spawn(move || {
            if dead.recv_timeout(LIFE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("the server ran longer than {LIFE:?} and is killed");
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Self { child, alive }
    }

    /// Waits until the server listens.
    ///
    /// # Panics
    /// If it does not come to listen; the message has its log.
    pub fn wait(self, place: &Place) -> Server {
        let Self { mut child, alive } = self;
        let mut line = String::new();
        let stdout = child.stdout.take().expect("standard output is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("standard output can be read");
        let Some(address) = line.trim().strip_prefix("listening on ").and_then(|address| address.parse().ok()) else {
            let _ = child.kill();
            let status = child.wait();
            panic!("the server did not start ({status:?}): {line}{}", place.log());
        };
        Server { child, address, place: None, _alive: alive }
    }

    /// Ends it with SIGKILL.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn kill(mut self) {
        self.child.kill().expect("the server runs");
        self.child.wait().expect("the server ends");
    }
}

/// A running server.
pub struct Server {
    child: Child,
    address: SocketAddr,
    /// Keeps the directory of a server that was started with [`Server::fresh`].
    place: Option<Place>,
    /// Dropping it ends the watchdog.
    _alive: Sender<()>,
}

impl Server {
    /// Starts a server in a new directory.
    pub fn fresh() -> Self {
        Self::fresh_with(&[])
    }

    /// Starts a server in a new directory with further arguments.
    pub fn fresh_with(arguments: &[&str]) -> Self {
        let place = Place::new();
        let mut server = Self::start_with(&place, arguments);
        server.place = Some(place);
        server
    }

    /// Starts a server in a place and returns once it listens.
    pub fn start(place: &Place) -> Self {
        Self::start_with(place, &[])
    }

    /// Starts a server in a place with further arguments and returns once it listens.
    ///
    /// # Panics
    /// If it does not come to listen; the message has its log.
    pub fn start_with(place: &Place, arguments: &[&str]) -> Self {
        Self::start_under(place, &[], arguments)
    }

    /// Starts a server through another program. `wrapper` is the program and its arguments, to which the server's
    /// command is appended; the program must execute that command in its own process (exec).
    ///
    /// # Panics
    /// If it does not come to listen; the message has its log.
    pub fn start_under(place: &Place, wrapper: &[&str], arguments: &[&str]) -> Self {
        Starting::begin(place, wrapper, arguments).wait(place)
    }

    /// Runs the server where it must refuse to start, and returns its output.
    ///
    /// # Panics
    /// If it starts.
    pub fn refused(data: &Path, arguments: &[&str]) -> Refused {
        let mut child = serve(data)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("standard output is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("standard output can be read");
        if !line.is_empty() {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the server started: {line}");
        }
        let mut said = String::new();
        child.stderr.take().expect("standard error is a pipe").read_to_string(&mut said).expect("it says text");
        let status = child.wait().expect("it ends");
        Refused { code: status.code(), said }
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the address where the newest server in `place` listens for replicas, from its log.
    ///
    /// # Panics
    /// If the log has no such line.
    pub fn replica_address(place: &Place) -> String {
        place.said_last("listening for replicas on ").unwrap_or_else(|| panic!("nobody does: {}", place.log()))
    }

    /// Returns the address where the newest server in `place` answers HTTP, from its log. Waits for the line, which the
    /// server writes before its database is open.
    ///
    /// # Panics
    /// If the line does not appear in time.
    pub fn http_address(place: &Place) -> SocketAddr {
        let start = Stopwatch::start();
        loop {
            if let Some(address) = place.said_last("listening for HTTP on ") {
                return address.parse().expect("an address");
            }
            assert!(start.elapsed() < PATIENCE, "nobody answers HTTP: {}", place.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns a URL of the database.
    pub fn url(&self) -> String {
        format!("postgresql://collie@{}/collie", self.address)
    }

    /// Returns the driver's configuration.
    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port()).user("collie").dbname("collie");
        config.connect_timeout(PATIENCE);
        config
    }

    /// Connects the driver.
    ///
    /// # Panics
    /// When it cannot connect.
    pub fn connect(&self) -> Client {
        self.config().connect(NoTls).expect("the server accepts a session")
    }

    /// Proves that the server still serves a new session.
    ///
    /// # Panics
    /// If it does not; `after` names the preceding event in the message.
    pub fn serves_after(&self, after: &str) {
        let answer = self.config().connect(NoTls).and_then(|mut client| client.query_one("SELECT 1 + 1", &[]));
        match answer {
            Ok(row) => assert_eq!(row.get::<_, i32>(0), 2, "after {after}"),
            Err(error) => panic!("after {after} the server does not serve: {error:?}"),
        }
    }

    /// Returns the resident memory of the server, in bytes.
    ///
    /// # Panics
    /// If Linux does not report it.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the server runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux says it");
        let kib: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("in KiB");
        kib * 1024
    }

    /// Stops the process with SIGSTOP.
    ///
    /// # Panics
    /// When it is gone.
    pub fn pause(&self) {
        kill_process(pid_of(&self.child), Signal::STOP).expect("the server runs");
    }

    /// Continues the process after [`Server::pause`].
    ///
    /// # Panics
    /// When it is gone.
    pub fn go_on(&self) {
        kill_process(pid_of(&self.child), Signal::CONT).expect("the server runs");
    }

    /// Ends it with SIGTERM and returns its exit status.
    ///
    /// # Panics
    /// If it has ended already.
    pub fn stop(mut self) -> ExitStatus {
        kill_process(pid_of(&self.child), Signal::TERM).expect("the server runs");
        self.child.wait().expect("the server ends")
    }

    /// Ends it with SIGKILL.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn kill(mut self) {
        self.child.kill().expect("the server runs");
        self.child.wait().expect("the server ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking()
            && let Some(place) = &self.place
        {
            eprintln!("--- the server said:\n{}---", place.log());
        }
    }
}

/// The exit code and the output of a server that did not start.
#[derive(Debug)]
pub struct Refused {
    /// Its exit code.
    pub code: Option<i32>,
    /// Its standard error.
    pub said: String,
}

impl Refused {
    /// Returns the only line on standard error, without `error: `, after checking that there is one line and that the
    /// exit code is 1.
    ///
    /// # Panics
    /// If the output has another form, or the exit code is not 1.
    pub fn line(&self) -> &str {
        assert_eq!(self.code, Some(1), "exit code; it said: {}", self.said);
        let line = self.said.strip_suffix('\n').expect("a line ends");
        assert!(!line.contains('\n'), "more than one line: {}", self.said);
        line.strip_prefix("error: ").unwrap_or_else(|| panic!("no error line: {line}"))
    }
}

fn serve(data: &Path) -> Command {
    let mut command = Command::new(binary());
    serve_by(&mut command, data);
    command
}

fn serve_by<'a>(command: &'a mut Command, data: &Path) -> &'a mut Command {
    let key = format!("replication.key_file={}", key_beside(data).display());
    command.args(["serve", "--listen", "127.0.0.1:0", "--set", &key, "--data"]).arg(data)
}

/// Returns the path of the replication key, next to the data directory; it is the same key in all places.
fn key_beside(data: &Path) -> PathBuf {
    data.with_file_name("key of tests")
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}
