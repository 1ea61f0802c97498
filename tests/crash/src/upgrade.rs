//! `upgrade`: data directories that programs of earlier formats left, opened by the current program.
//!
//! `tests/crash/upgrade` has one directory for each released set of format versions that can still be made. It holds a
//! recipe (`recipe.rs`), the data directory that the recipe's last server left, packed (`archive.rs`), and the answers
//! to its queries at that time.
//!
//! # Oracles
//! - G1. The program opens each directory and answers every query as the program that left it did: rows, index lookups,
//!   sequences, definitions.
//! - G2. It writes there, enforces the definitions, stops, opens again, and answers as it did before it stopped.
//! - G3. A file with a format version above the known one makes the start fail with one line that names the file and
//!   the remedy; no byte in the directory is changed.
//! - G4. The newest archive has every file's format version that the program writes now: a change that raises a version
//!   must add an archive.
//!
//! Not compared are the versions of records inside the log and of the catalog's rows, for which `docs/format.md` has
//! golden bytes, and those of the library that stores the tables.

mod archive;
mod recipe;
mod versions;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail, ensure};

use crate::server::Server;
use archive::Archive;
use recipe::Recipe;

/// The arguments of the command.
pub(crate) struct Plan {
    pub(crate) server: PathBuf,
    pub(crate) archives: PathBuf,
    /// Make the archive of this name by its recipe instead, with this server.
    pub(crate) make: Option<String>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "upgrade --archives {} --server {}", self.archives.display(), self.server.display())
    }
}

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<String> {
    let dir = tempfile::Builder::new().prefix("collie-upgrade-").tempdir()?;
    if let Some(name) = &plan.make {
        return make(plan, &Archive::named(&plan.archives, name), dir.path());
    }
    let archives = Archive::all(&plan.archives)?;
    let newest = archives.last().context("there are archives")?;
    for archive in &archives {
        let work = dir.path().join(archive.name());
        fs::create_dir(&work)?;
        opens(plan, archive, &work).with_context(|| format!("archive {}", archive.name()))?;
    }
    let refused = refuses_newer(plan, newest, dir.path())?;
    is_covered(plan, newest, dir.path())?;
    Ok(format!(
        "upgrade: {} archives opened, written and opened again, {refused} kinds of file of a newer version refused: all oracles hold",
        archives.len()
    ))
}

/// Starts the server on a directory; its log goes next to the directory.
fn start(plan: &Plan, data: &Path, settings: &[String]) -> anyhow::Result<Server> {
    Server::start_logged(&plan.server, &[], data, settings, &data.with_extension("said"))
}

/// Makes an archive by its recipe.
fn make(plan: &Plan, archive: &Archive, dir: &Path) -> anyhow::Result<String> {
    let recipe = Recipe::read(&archive.recipe())?;
    let data = dir.join("data");
    let dump = recipe.run(&plan.server, &data)?;
    fs::write(archive.dump(), dump)?;
    let bytes = archive.pack(&data)?;
    Ok(format!("upgrade: made {}, {bytes} bytes, {}", archive.name(), versions::Survey::of(&data)?))
}

/// Checks G1 and G2.
fn opens(plan: &Plan, archive: &Archive, dir: &Path) -> anyhow::Result<()> {
    let data = archive.unpack(dir)?;
    let recipe = Recipe::read(&archive.recipe())?;
    let server = start(plan, &data, &recipe.settings)?;
    let found = recipe.dump(&mut server.connect()?)?;
    same(&fs::read_to_string(archive.dump())?, &found).context("G1: it does not answer as the program that left it")?;
    recipe.write(&mut server.connect()?).context("G2")?;
    let written = recipe.dump(&mut server.connect()?)?;
    ensure!(written != found, "the recipe's writes change nothing that its queries see");
    server.stop()?;
    let server = start(plan, &data, &recipe.settings).context("G2: the second start")?;
    same(&written, &recipe.dump(&mut server.connect()?)?).context("G2: after the second start")?;
    server.stop()
}

/// Compares answers line by line.
fn same(expected: &str, found: &str) -> anyhow::Result<()> {
    let (mut query, mut lines) = ("", found.lines());
    for expected in expected.lines() {
        query = if expected.starts_with("> ") { expected } else { query };
        let line = lines.next().unwrap_or("nothing");
        ensure!(line == expected, "{query}: {line} in place of {expected}");
    }
    ensure!(lines.next().is_none(), "{query}: more than there was");
    Ok(())
}

/// Checks G3; returns the number of kinds of files.
fn refuses_newer(plan: &Plan, archive: &Archive, dir: &Path) -> anyhow::Result<usize> {
    let data = archive.unpack(dir)?;
    let survey = versions::Survey::of(&data)?;
    let kinds: Vec<_> = survey.versions().collect();
    for (kind, version) in &kinds {
        fs::remove_dir_all(&data)?;
        archive.unpack(dir)?;
        let raised = versions::raise(&data, *kind)?;
        refuses(plan, &data, &raised, version + 1)
            .with_context(|| format!("G3: {} of a newer version", raised.display()))?;
    }
    Ok(kinds.len())
}

fn refuses(plan: &Plan, data: &Path, raised: &Path, version: u16) -> anyhow::Result<()> {
    let before = archive::contents(data)?;
    // A server that serves replicas reads every file.
    let settings = ["--set", "server.replica_listen=127.0.0.1:0"];
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data"];
    let mut command = Command::new(&plan.server);
    let mut child = command
        .args(serve)
        .arg(data)
        .args(settings)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the server")?;
    let started = archive::first_line(child.stdout.take().context("no standard output")?);
    if !started.is_empty() {
        child.kill()?;
        child.wait()?;
        bail!("it is opened");
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(said.lines().count() == 1, "refused in other than one line: {said}");
    for word in [&raised.display().to_string(), &format!("version {version}"), "use that program"] {
        ensure!(said.contains(word), "{word} is not said: {said}");
    }
    let after = archive::contents(data)?;
    for name in before.keys().chain(after.keys()) {
        ensure!(before.get(name) == after.get(name), "{name} was changed by a start that was refused: {said}");
    }
    Ok(())
}

/// Checks G4.
fn is_covered(plan: &Plan, newest: &Archive, dir: &Path) -> anyhow::Result<()> {
    let recipe = Recipe::read(&newest.recipe())?;
    let fresh = dir.join("fresh");
    recipe.run(&plan.server, &fresh).context("the newest recipe")?;
    let writes = versions::Survey::of(&fresh)?;
    let unpacked = dir.join("newest");
    fs::create_dir(&unpacked)?;
    let kept = versions::Survey::of(&newest.unpack(&unpacked)?)?;
    ensure!(
        writes == kept,
        "G4: this program writes {writes}; the newest archive, {}, has {kept}: add one (tests/crash/upgrade/README.md)",
        newest.name()
    );
    Ok(())
}
