//! The place where a server makes copies of its database: by their name, below one directory.
//!
//! # Invariants
//! - D1. A client gives one name, never a place of its own choice: nothing outside the directory or in a directory
//!   below it. No symbolic link is followed there.
//! - D2. A user that has the database open in its own process (no server) may name any directory: it could write there
//!   without the database.

use std::path::{Path, PathBuf};

use collie_env::Env;

use crate::{
    error::{Result, SqlError, SqlState},
    session::Database,
};

/// Longest name, in bytes. A file system allows 255, and the name gets a suffix until the copy is complete.
const NAME_BYTES_MAX: usize = 200;

fn refused(text: String, hint: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, text).hint(hint)
}

/// Returns whether the text names one entry of a directory.
fn is_name(text: &str) -> bool {
    let is_plain = !text.contains('/') && !text.chars().any(char::is_control);
    is_plain
        && (1..=NAME_BYTES_MAX).contains(&text.len())
        && !text.starts_with('.')
        && !text.ends_with(".collie-partial")
}

/// Returns the directory below `copies` that `asked`, a name or the whole path of one, stands for. Creates `copies`.
fn below(copies: &Path, asked: &str, env: &Env) -> Result<PathBuf> {
    let failed =
        |error: std::io::Error| SqlError::new(SqlState::IO_ERROR, format!("cannot make {}: {error}", copies.display()));
    let path = Path::new(asked);
    let is_there = |above: &Path| {
        let same = env.files.resolve(above).ok().zip(env.files.resolve(copies).ok());
        above == copies || same.is_some_and(|(one, other)| one == other)
    };
    let name = match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) if path.is_absolute() && is_there(above) => name.to_str().unwrap_or_default(),
        _ => asked,
    };
    if !is_name(name) {
        let text = format!("copies are made in {} only, by their name", copies.display());
        return Err(refused(text, "Give a name such as monday; server.copy_dir names another directory.".to_owned()));
    }
    env.files.create_dir_all(copies).map_err(failed)?;
    let target = copies.join(name);
    for link in [copies, &target] {
        if env.files.is_link(link).map_err(failed)? {
            let text = format!("{} is a symbolic link, which no copy is made through", link.display());
            return Err(refused(text, "Give another name, or have server.copy_dir name where it leads.".to_owned()));
        }
    }
    Ok(target)
}

impl Database {
    /// Sets `dir` as the directory below which copies that clients ask for are made (D1). Only the first call counts.
    pub fn copy_below(&self, dir: PathBuf) {
        let _already_there = self.copies.set(dir);
    }

    /// Returns the directory to create for a copy that is asked for as `asked`.
    ///
    /// # Errors
    /// 22023 if it is not an allowed place. Errors of the disk.
    pub(super) fn place_of_copy(&self, asked: &str) -> Result<PathBuf> {
        match self.copies.get() {
            Some(copies) => below(copies, asked, &self.env),
            None if Path::new(asked).is_absolute() => Ok(asked.into()), // D2
            None => {
                let text = "the directory of a checkpoint must be given by its absolute path".to_owned();
                Err(refused(text, "The path is the server's.".to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: D1: whatever a client asks for, its copy is made right below the directory for copies. Method: names,
    /// paths that lead elsewhere, and links, on a real disk.
    #[test]
    fn copies_are_made_in_their_directory_alone() {
        let (env, above) = (Env::real(), tempfile::tempdir().unwrap());
        let above = above.path().canonicalize().unwrap();
        let copies = above.join("data/copies");
        let place = |asked: &str| below(&copies, asked, &env);
        for name in ["monday", "it's a backup", "2026-11-28_a.b"] {
            assert_eq!(place(name).unwrap(), copies.join(name));
            assert_eq!(place(copies.join(name).to_str().unwrap()).unwrap(), copies.join(name));
        }
        let outside = above.join("outside");
        std::fs::create_dir(&outside).unwrap();
        let inside = copies.join("a/b");
        let bad = [
            outside.to_str().unwrap(),
            inside.to_str().unwrap(),
            copies.to_str().unwrap(),
            "/",
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "./a",
            "../outside",
            "a/../../outside",
            "x.collie-partial",
            "a\nb",
            "a\0b",
            "/etc/cron.d/x",
        ];
        for asked in bad {
            let refused = place(asked).unwrap_err();
            assert_eq!(refused.state(), SqlState::INVALID_PARAMETER_VALUE, "{asked:?}: {refused}");
        }
        assert!(place(&"x".repeat(201)).is_err() && place(&"x".repeat(200)).is_ok());
        let link = copies.join("link");
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        let through =
            [link.to_str().unwrap().to_owned(), "link".to_owned(), link.join("x").to_str().unwrap().to_owned()];
        for asked in through {
            assert!(place(&asked).is_err(), "{asked}");
        }
        std::fs::remove_dir_all(&copies).unwrap();
        std::os::unix::fs::symlink(&outside, &copies).unwrap();
        assert!(place("monday").unwrap_err().to_string().contains("is a symbolic link"));
    }
}
