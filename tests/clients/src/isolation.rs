//! PostgreSQL's isolation tester and its specs: finds or fetches them, and runs them against a server.
//!
//! The specs belong to PostgreSQL's source package and are not part of this tree: `tests/isolation-specs` downloads
//! them once into a folder that the caller names.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    program::{Done, run},
    server::Server,
};

/// The path of Debian's isolation tester, in the version that Collie follows.
const TESTER: &str = "/usr/lib/postgresql/15/lib/pgxs/src/test/isolation/isolationtester";
/// The Debian package that contains the tester.
const PACKAGE: &str = "postgresql-client-15";
/// The time limits of a spec, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The tester cancels a step that runs longer than this, and gives up after twice as long.
    pub step: u32,
    /// The limit for the whole spec.
    pub whole: u32,
}

/// The tester and the specs.
pub struct Specs {
    folder: PathBuf,
}

impl Specs {
    /// Finds the tester, and the specs in `folder`; downloads the specs into it if they are missing.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn fetch(folder: &Path) -> Result<Self, String> {
        if !Path::new(TESTER).is_file() {
            return Err(format!("PostgreSQL's isolationtester is not installed: apt-get install {PACKAGE}"));
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../isolation-specs");
        let done: Done = Command::new(script).arg(folder).output().expect("the script of this tree starts").into();
        if done.code != Some(0) {
            return Err(format!("PostgreSQL's isolation specs cannot be fetched: {}", done.err.trim_end()));
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// Returns the names of all specs, in order.
    ///
    /// # Panics
    /// When the folder cannot be read.
    pub fn names(&self) -> Vec<String> {
        let files = fs::read_dir(self.folder.join("specs")).expect("the specs were fetched");
        let names = files.map(|file| file.expect("a folder can be read").path());
        let mut names: Vec<String> =
            names.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
        names.sort();
        names
    }

    /// Returns all outputs that PostgreSQL may produce for a spec.
    ///
    /// # Panics
    /// If there is none.
    pub fn expected(&self, name: &str) -> Vec<String> {
        let file = |suffix: &str| self.folder.join("expected").join(format!("{name}{suffix}.out"));
        let suffixes = std::iter::once(String::new()).chain((0..10).map(|number| format!("_{number}")));
        let found: Vec<String> = suffixes.filter_map(|suffix| fs::read_to_string(file(&suffix)).ok()).collect();
        assert!(!found.is_empty(), "{name}: no expected output");
        found
    }

    /// Runs a spec within its limits, and returns what the tester printed.
    ///
    /// # Panics
    /// If the spec cannot be read or the tester cannot be started.
    pub fn run(&self, name: &str, server: &Server, limits: Limits) -> String {
        let spec = fs::read_to_string(self.folder.join("specs").join(format!("{name}.spec"))).expect("a spec");
        let place = format!("host=127.0.0.1 port={} user=collie dbname=collie", server.port());
        let application = format!("isolation/{name}");
        let (step, whole) = (limits.step.to_string(), limits.whole.to_string());
        let environment = [("PGISOLATIONTIMEOUT", step.as_str()), ("PGAPPNAME", &application)];
        let arguments = ["-c", "exec timeout \"$0\" \"$@\" 2>&1", &whole, TESTER, &place];
        run(Path::new("/bin/sh"), &arguments, &environment, &spec).out
    }
}
