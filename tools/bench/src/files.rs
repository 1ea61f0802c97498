//! Scratch files and directories of a benchmark.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::{Env, File};

/// Makes `path` a file of `bytes` zeros, written and synced, so that overwriting it changes no metadata.
///
/// # Errors
/// Those of the operating system.
pub(crate) fn filled(env: &Env, path: &Path, bytes: u64) -> io::Result<Arc<dyn File>> {
    // The file may be left from an interrupted run, or absent.
    let _absent = env.files.remove(path);
    let file = env.files.create(path)?;
    let zeros = vec![0; 1 << 20];
    for at in (0..bytes).step_by(zeros.len()) {
        let count = zeros.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
        file.write_at(at, &zeros[..count])?;
    }
    file.sync_data()?;
    Ok(file)
}

/// A directory that is removed with its files when this value is dropped.
#[derive(Debug)]
pub struct Scratch {
    env: Env,
    path: PathBuf,
}

impl Scratch {
    /// Creates a new directory in `parent`.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn new(env: &Env, parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!("collie-bench-{:016x}", env.random.u64()));
        env.files.create_dir_all(&path)?;
        Ok(Self { env: env.clone(), path })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for name in self.env.files.list(&self.path).unwrap_or_default() {
            // Best effort: a file that stays is in a directory whose name says that it is the benchmark's.
            let _best_effort = self.env.files.remove(&self.path.join(name));
        }
        let _best_effort = std::fs::remove_dir_all(&self.path);
    }
}
