//! The server under test, which the lab starts, waits for and kills.

use std::{
    ffi::OsStr,
    fs::File,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use postgres::{Client, Config, NoTls};
use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to open its directory; one that must wait for another is started again.
const START_TIME: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts the server on a free port, with these settings, and returns once it listens.
    pub(crate) fn start(binary: &Path, data: &Path, settings: &[String]) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        command.args(Self::arguments(data, settings)).stderr(Stdio::piped());
        Self::begin(command)
    }

    /// Starts the server with `arguments` before its own and its output appended to a file; with a pipe, a server with
    /// much output would wait for a reader.
    pub(crate) fn start_logged(
        binary: &Path,
        arguments: &[String],
        data: &Path,
        settings: &[String],
        log: &Path,
    ) -> anyhow::Result<Self> {
        Self::start_in(binary, arguments, data, settings, log, &[])
    }

    /// Starts the server as [`Server::start_logged`] does, with these environment variables.
    pub(crate) fn start_in(
        binary: &Path,
        arguments: &[String],
        data: &Path,
        settings: &[String],
        log: &Path,
        environment: &[(&str, String)],
    ) -> anyhow::Result<Self> {
        let said = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(binary);
        command.args(arguments).args(Self::arguments(data, settings)).stderr(said);
        environment.iter().for_each(|(name, value)| _ = command.env(name, value));
        Self::begin(command).with_context(|| format!("see {}", log.display()))
    }

    /// Starts the program's witness at `listen` with `arguments` before its own and its output appended to a file.
    pub(crate) fn start_witness(
        binary: &Path,
        arguments: &[String],
        (data, key): (&Path, &Path),
        listen: SocketAddr,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let said = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(binary);
        command.args(arguments).arg("witness").arg("--data").arg(data).arg("--key-file").arg(key);
        command.args(["--listen", &listen.to_string()]).stderr(said);
        Self::begin(command).with_context(|| format!("see {}", log.display()))
    }

    fn begin(mut command: Command) -> anyhow::Result<Self> {
        let program = command.get_program().to_owned();
        let mut child =
            command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let stdout = child.stdout.take().context("no standard output")?;
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _nothing_said = BufReader::new(stdout).read_line(&mut line);
            let _nobody_waits = tell.send(line);
        });
        let Ok(line) = told.recv_timeout(START_TIME) else {
            child.kill()?;
            child.wait()?;
            bail!("the server does not come to listen in {START_TIME:?}");
        };
        let Some(port) = line.trim().rsplit(':').next().and_then(|port| port.parse().ok()) else {
            let output = child.wait_with_output()?;
            bail!("the server did not start: {}", String::from_utf8_lossy(&output.stderr).trim());
        };
        Ok(Self { child, port })
    }

    /// Starts the server with `arguments` before its own, without waiting until it listens and without its output.
    pub(crate) fn start_unheard(
        binary: &Path,
        arguments: &[String],
        data: &Path,
        settings: &[String],
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        command.args(arguments).args(Self::arguments(data, settings)).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {}", binary.display()))?;
        Ok(Self { child, port: 0 })
    }

    /// Starts the server and kills it after the time `after`, whatever it is doing.
    pub(crate) fn start_and_kill(
        binary: &Path,
        data: &Path,
        settings: &[String],
        after: Duration,
    ) -> anyhow::Result<()> {
        let server = Self::start_unheard(binary, &[], data, settings)?;
        // The random moment of the kill is what the experiment varies.
        thread::sleep(after);
        server.kill()
    }

    fn arguments<'a>(data: &'a Path, settings: &'a [String]) -> impl Iterator<Item = &'a OsStr> {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data"].map(OsStr::new);
        let settings = settings.iter().flat_map(|pair| [OsStr::new("--set"), OsStr::new(pair)]);
        serve.into_iter().chain([data.as_os_str()]).chain(settings)
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user("collie").dbname("collie");
        config
    }

    pub(crate) fn connect(&self) -> anyhow::Result<Client> {
        self.config().connect(NoTls).context("cannot connect")
    }

    /// Returns the port on which it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Stops the process with SIGSTOP.
    pub(crate) fn pause(&self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::STOP).context("the server runs")
    }

    /// Continues the process after [`Server::pause`].
    pub(crate) fn go_on(&self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::CONT).context("the server runs")
    }

    /// Sends SIGKILL, and does not wait for the end of the process.
    pub(crate) fn strike(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("the server runs")
    }

    /// Sends SIGTERM, and waits until the server has stopped in order.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).context("the server runs")?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the server stopped with {status}");
        Ok(())
    }

    /// Sends SIGKILL, and waits for the end of the process.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
