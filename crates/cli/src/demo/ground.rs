//! [`Ground`]: the directory of a demo.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use collie_env::Env;

/// The space that two small databases and their logs need at first.
const ROOM_BYTES: u64 = 1 << 30;

/// A directory that is removed with its contents on drop, unless it is to be kept.
#[derive(Debug)]
pub(super) struct Ground {
    path: PathBuf,
    /// The directory existed before the demo: it stays, empty.
    was_there: bool,
    keep: bool,
}

impl Ground {
    /// Makes `dir`, or a new directory among the temporary files.
    ///
    /// # Errors
    /// The directory is not empty, it cannot be made, or its disk lacks space.
    pub(super) fn make(dir: Option<&Path>, keep: bool, env: &Env) -> anyhow::Result<Self> {
        let path = match dir {
            Some(dir) => dir.to_owned(),
            None => std::env::temp_dir().join(format!("collie-demo-{:016x}", env.random.u64())),
        };
        let was_there = path.exists();
        if was_there {
            let mut entries =
                std::fs::read_dir(&path).with_context(|| format!("cannot use {} as a directory", path.display()))?;
            anyhow::ensure!(
                entries.next().is_none(),
                "{} is not empty: a demo makes its own databases, so name an empty directory, or none",
                path.display()
            );
        }
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let ground = Self { path, was_there, keep };
        let disk = rustix::fs::statvfs(&ground.path)?;
        let room = disk.f_bavail.saturating_mul(disk.f_frsize);
        anyhow::ensure!(
            room >= ROOM_BYTES,
            "{} MiB are free on the disk of {}, and a demo takes {} MiB: name a directory elsewhere by --dir",
            room >> 20,
            ground.path.display(),
            ROOM_BYTES >> 20
        );
        Ok(ground)
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory, unless it is to be kept; returns the outcome, in one line.
    pub(super) fn leave(self) -> String {
        let path = self.path.display();
        match self.remove() {
            Ok(()) if self.keep => format!("stopped; both databases and the logs of their servers are in {path}"),
            Ok(()) => "stopped; nothing is left".to_owned(),
            Err(error) => format!("stopped; {path} could not be removed: {error}"),
        }
    }

    fn remove(&self) -> std::io::Result<()> {
        if self.keep || !self.path.exists() {
            return Ok(());
        }
        if self.was_there {
            for entry in std::fs::read_dir(&self.path)? {
                let path = entry?.path();
                if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
            }
            return Ok(());
        }
        std::fs::remove_dir_all(&self.path)
    }
}

/// Covers every unexpected exit path: after [`Ground::leave`] there is nothing to do.
impl Drop for Ground {
    fn drop(&mut self) {
        let _best_effort = self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: D1, D2: what was made is removed, what existed stays, a directory with files is refused. Method: a
    /// directory of each kind.
    #[test]
    fn only_what_the_demo_made_goes() {
        let (dir, env) = (tempfile::tempdir().unwrap(), Env::real());
        let (new, empty, full) = (dir.path().join("a/new"), dir.path().join("empty"), dir.path().join("full"));
        std::fs::create_dir(&empty).unwrap();
        std::fs::create_dir(&full).unwrap();
        std::fs::write(full.join("mine"), "x").unwrap();
        for (path, is_left) in [(&new, false), (&empty, true)] {
            let ground = Ground::make(Some(path.as_path()), false, &env).unwrap();
            std::fs::create_dir(ground.path().join("primary")).unwrap();
            std::fs::write(ground.path().join("primary.log"), "x").unwrap();
            assert_eq!(ground.leave(), "stopped; nothing is left");
            assert_eq!(path.exists(), is_left, "{}", path.display());
        }
        assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
        let refused = Ground::make(Some(full.as_path()), false, &env).unwrap_err().to_string();
        assert!(refused.contains("full is not empty"), "{refused}");
        assert!(full.join("mine").exists());
        let kept = Ground::make(Some(new.as_path()), true, &env).unwrap();
        std::fs::write(new.join("primary.log"), "x").unwrap();
        assert!(kept.leave().ends_with("a/new"));
        assert!(new.join("primary.log").exists());
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let refused = format!("{:#}", Ground::make(Some(file.as_path()), false, &env).unwrap_err());
        assert!(refused.contains("cannot use"), "{refused}");
        let own = Ground::make(None, false, &env).unwrap();
        let path = own.path().to_owned();
        assert!(path.exists());
        drop(own);
        assert!(!path.exists());
    }
}
