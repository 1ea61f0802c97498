//! `Cgroup`: a control group with a memory limit, of version 1 or 2, and the processes in it. Only root can make one.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::Context;

/// The directories of the groups of each version.
const ROOTS: [(Version, &str); 2] = [(Version::One, "/sys/fs/cgroup/memory"), (Version::Two, "/sys/fs/cgroup")];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// See the module's documentation. Dropping it removes the group, once its processes have ended.
pub(super) struct Cgroup {
    dir: PathBuf,
    version: Version,
}

impl Cgroup {
    /// Makes a group that may use at most `bytes`, without swap.
    ///
    /// # Errors
    /// The reason why none can be made here.
    pub(super) fn make(bytes: u64) -> Result<Self, String> {
        let mut why = "no controller of memory is mounted".to_owned();
        for (version, root) in ROOTS {
            let root = Path::new(root);
            let file = match version {
                Version::One => "memory.limit_in_bytes",
                Version::Two => "cgroup.controllers",
            };
            if !root.join(file).exists() {
                continue;
            }
            let dir = root.join(format!("collie-faultlab-{}", std::process::id()));
            match Self::limited(dir.clone(), version, bytes) {
                Ok(group) => return Ok(group),
                Err(error) => why = format!("{}: {error}", dir.display()),
            }
        }
        Err(why)
    }

    fn limited(dir: PathBuf, version: Version, bytes: u64) -> io::Result<Self> {
        if version == Version::Two {
            // The controller may be enabled already.
            let _none = fs::write(dir.with_file_name("cgroup.subtree_control"), "+memory");
        }
        fs::create_dir(&dir)?;
        let group = Self { dir, version };
        let (limit, swap) = match version {
            Version::One => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
            Version::Two => ("memory.max", "memory.swap.max"),
        };
        fs::write(group.dir.join(limit), bytes.to_string())?;
        let swap_bytes = if version == Version::One { bytes } else { 0 };
        // A kernel without swap accounting has no such file.
        let _none = fs::write(group.dir.join(swap), swap_bytes.to_string());
        Ok(group)
    }

    /// Returns the program and the arguments that, put before a command's own arguments, run it in the group.
    pub(super) fn enter(&self, command: &Path) -> (PathBuf, Vec<String>) {
        let script = format!("echo $$ > '{}' && exec \"$0\" \"$@\"", self.dir.join("cgroup.procs").display());
        ("/bin/sh".into(), vec!["-c".to_owned(), script, command.display().to_string()])
    }

    /// Returns the anonymous memory of its processes, in bytes, without the file cache, which the kernel can reclaim.
    pub(super) fn used(&self) -> anyhow::Result<u64> {
        let stat = fs::read_to_string(self.dir.join("memory.stat"))?;
        let name = if self.version == Version::One { "rss " } else { "anon " };
        let line = stat.lines().find_map(|line| line.strip_prefix(name)).context("no memory in memory.stat")?;
        Ok(line.trim().parse()?)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A killed process may stay in the group for a moment; if the directory is not removed, no harm is done.
        for _ in 0..100 {
            match fs::remove_dir(&self.dir) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(Duration::from_millis(20)),
                _ => return,
            }
        }
    }
}
