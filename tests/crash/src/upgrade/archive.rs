//! `Archive`: a data directory that a program left, packed by `tar` and `gzip`, with its recipe and the answers to its
//! queries.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

/// The largest size of an archive; above it the recipe writes too much.
const BYTES_MAX: u64 = 1 << 20;

/// See the module's documentation.
pub(super) struct Archive {
    dir: PathBuf,
}

impl Archive {
    pub(super) fn named(archives: &Path, name: &str) -> Self {
        Self { dir: archives.join(name) }
    }

    /// Returns all archives, the oldest first: their names begin with a number.
    pub(super) fn all(archives: &Path) -> anyhow::Result<Vec<Self>> {
        let entries = fs::read_dir(archives).with_context(|| archives.display().to_string())?;
        let mut dirs: Vec<PathBuf> = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
        dirs.retain(|dir| dir.is_dir());
        dirs.sort_unstable();
        Ok(dirs.into_iter().map(|dir| Self { dir }).collect())
    }

    pub(super) fn name(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(super) fn recipe(&self) -> PathBuf {
        self.dir.join("recipe.sql")
    }

    /// Returns the path of its answers.
    pub(super) fn dump(&self) -> PathBuf {
        self.dir.join("answers.txt")
    }

    fn packed(&self) -> PathBuf {
        self.dir.join("data.tar.gz")
    }

    /// Packs a data directory; returns the size of the archive.
    pub(super) fn pack(&self, data: &Path) -> anyhow::Result<u64> {
        let parent = data.parent().context("a data directory is in a directory")?;
        let mut command = Command::new("tar");
        command.args([
            "--sort=name",
            "--mtime=@0",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "-I",
            "gzip -9n",
            "-cf",
        ]);
        run(command.arg(self.packed()).arg("-C").arg(parent).arg(data.file_name().context("a directory has a name")?))?;
        let bytes = fs::metadata(self.packed())?.len();
        ensure!(bytes <= BYTES_MAX, "{bytes} bytes are more than the {BYTES_MAX} of an archive");
        Ok(bytes)
    }

    /// Unpacks it in a directory; returns the data directory.
    pub(super) fn unpack(&self, into: &Path) -> anyhow::Result<PathBuf> {
        run(Command::new("tar").args(["--no-same-owner", "-p", "-xzf"]).arg(self.packed()).arg("-C").arg(into))?;
        Ok(into.join("data"))
    }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().context("cannot run tar")?;
    ensure!(output.status.success(), "tar: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Returns the names of all directories below a directory, and the bytes of every file except `LOCK`, which a refused
/// start may take.
pub(super) fn contents(dir: &Path) -> anyhow::Result<BTreeMap<String, Option<Vec<u8>>>> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(&at)? {
            let path = entry?.path();
            let bytes = if path.is_dir() { None } else { Some(fs::read(&path)?) };
            if bytes.is_none() {
                todo.push(path.clone());
            }
            if path.file_name().is_none_or(|name| name != "LOCK") {
                found.insert(path.strip_prefix(dir)?.display().to_string(), bytes);
            }
        }
    }
    Ok(found)
}

/// Returns the first line from a reader, or an empty string if there is none.
pub(super) fn first_line(from: impl Read) -> String {
    let mut line = String::new();
    let _nothing_came = BufReader::new(from).read_line(&mut line);
    line
}
