//! Client programs: psql, pgbench, Python, and `collie` itself.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
};

use crate::server::{Server, binary};

/// Seconds that a client program may run.
const SECONDS_MAX: &str = "300";

/// The output of a program and its exit code.
#[derive(Debug)]
pub struct Done {
    /// Its exit code.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Done {
    /// Returns the standard output of a program that must have succeeded.
    ///
    /// # Panics
    /// If it failed; the message has its output.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "out: {}\nerr: {}", self.out, self.err);
        self.out
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Finds a client program in Debian's version directories of PostgreSQL, the newest first, and then in PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    folders.sort();
    folders.reverse();
    folders.extend(std::env::split_paths(&path));
    folders.into_iter().map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn needed(name: &str, package: &str) -> PathBuf {
    find(name).unwrap_or_else(|| panic!("{name} is not installed: apt-get install {package}"))
}

/// Runs a program to its end, with `input` on standard input and a time limit.
///
/// # Panics
/// When it cannot be started.
pub fn run(program: &Path, arguments: &[&str], environment: &[(&str, &str)], input: &str) -> Done {
    let mut command = Command::new("timeout");
    command.arg(SECONDS_MAX).arg(program).args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PG") || name.starts_with("LC_") || name == "LANG") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C.UTF-8").envs(environment.iter().copied());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    let input = input.to_owned();
    let writer = thread::spawn(move || {
        // A program that ends early closes its standard input; that is no error here.
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("writing does not panic");
    output.into()
}

/// Runs a program as [`run`] does, with standard error merged into standard output.
pub fn run_merged(program: &Path, arguments: &[&str], input: &str) -> Done {
    let program = program.display().to_string();
    let mut all = vec!["-c", "exec \"$0\" \"$@\" 2>&1", &program];
    all.extend(arguments);
    run(Path::new("/bin/sh"), &all, &[], input)
}

/// psql, connected to a server.
pub struct Psql<'a> {
    server: &'a Server,
}

impl<'a> Psql<'a> {
    /// Returns psql for a server.
    pub fn new(server: &'a Server) -> Self {
        Self { server }
    }

    /// Runs a script from standard input, with further arguments.
    pub fn script(&self, arguments: &[&str], script: &str) -> Done {
        let program = needed("psql", "postgresql-client-15");
        let port = self.server.port().to_string();
        let mut all = vec!["-X", "-h", "127.0.0.1", "-p", &port, "-U", "collie", "-d", "collie", "-w"];
        all.extend(["-v", "ON_ERROR_STOP=1"]);
        all.extend(arguments);
        run(&program, &all, &[], script)
    }

    /// Runs a script with standard error merged into standard output, in the order in which psql wrote them.
    pub fn merged(&self, arguments: &[&str], script: &str) -> Done {
        let program = needed("psql", "postgresql-client-15");
        let port = self.server.port().to_string();
        let mut all = vec!["-X", "-h", "127.0.0.1", "-p", &port, "-U", "collie", "-d", "collie", "-w"];
        all.extend(arguments);
        run_merged(&program, &all, script)
    }

    /// Runs one command and returns its rows, unaligned and without header.
    ///
    /// # Panics
    /// When it fails.
    pub fn value(&self, sql: &str) -> String {
        self.script(&["-A", "-t", "-q", "-c", sql], "").ok().trim_end().to_owned()
    }
}

/// Runs pgbench on a server.
pub fn pgbench(server: &Server, arguments: &[&str]) -> Done {
    let program = needed("pgbench", "postgresql-15");
    let port = server.port().to_string();
    let mut all = arguments.to_vec();
    all.extend(["-h", "127.0.0.1", "-p", &port, "-U", "collie", "collie"]);
    run(&program, &all, &[], "")
}

/// Runs `collie` with these arguments.
pub fn collie(arguments: &[&str], input: &str) -> Done {
    run(&binary(), arguments, &[], input)
}

/// Returns a Python that can import psycopg: `$COLLIE_PYTHON`, or python3 if that is not set.
pub fn python_with_psycopg() -> Option<PathBuf> {
    let named = std::env::var_os("COLLIE_PYTHON").map(PathBuf::from);
    let python = named.or_else(|| find("python3"))?;
    let found = run(&python, &["-c", "import psycopg"], &[], "");
    (found.code == Some(0)).then_some(python)
}
