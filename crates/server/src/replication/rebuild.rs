//! [`rebuild`]: fills a replica's directory from a base backup and exchanges its old contents for that, so that there
//! is always a whole database.
//!
//! Everything happens inside the directory: it may be a mount point, which cannot be renamed, or the only place with
//! space.
//!
//! # Invariants
//! - A1. A base backup is written to `copy-partial` in the directory, and becomes `copy-whole` only when it is whole
//!   and on disk: half a backup never opens.
//! - A2. From then on the copy counts, and not before. [`settle`] removes the old contents, renames the copy to
//!   `copy-moving`, and moves its contents to their places, the control file last. After a crash at any point it
//!   continues there. Both databases exist at once, so there must be space for both.
//! - A3. Log tails that were set aside in `diverged` stay, and so do `copies`, `samples` and `models`, which describe
//!   the machine and not the rows, the file `promise`, by which a node keeps its promises (REPL-8), and
//!   `replication.key`, without which it could follow no node.
//! - A4. All of it happens under the lock next to the directory (`guard.rs`), which no second server can acquire.
//! - A5. The received files are compared with the checksums inside before they are opened: a copy that is not whole is
//!   discarded and made again, while the old directory stays.
//!
//! | the directory has | a crash was | done at the next start |
//! |---|---|---|
//! | `copy-partial` | before the copy was whole | removed; filled again once the primary demands it |
//! | `copy-whole` | while the old contents were removed | the rest of them is removed, and the copy moved |
//! | `copy-moving` | while the copy was moved | the rest of it is moved |
//! | next to it `DIR.collie-before` or `-partial` | in an older version, which exchanged directories | the same |
//!
//! Checked by the tests here: a power cut at every call to the disk.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use collie_engine::ErrorKind;
use collie_env::Env;
use collie_replica::{
    database::plant,
    key::{KEY_FILE, KeyFile},
    standby::{Backoff, Cloned, FollowOptions, clone},
};
use tokio::{task::block_in_place, time::sleep};

use super::{key::key_of, peers::Addresses};
use crate::{ServeError, config::Config, log_lines};

/// The directories of set-aside log tails, samples, models and copies.
const MOVED_ON: [&str; 4] = ["diverged", "samples", "models", "copies"];

/// Further names that stay: the promises of a node, the key by which others know it, and a directory made by the file
/// system.
const STAYS: [&str; 3] = ["promise", KEY_FILE, LOST_AND_FOUND];

/// Exists at the root of some file systems.
const LOST_AND_FOUND: &str = "lost+found";

/// A copy that is being written (A1).
const PARTIAL: &str = "copy-partial";

/// A copy that counts (A2).
const WHOLE: &str = "copy-whole";

/// A copy that is being moved to its place (A2).
const MOVING: &str = "copy-moving";

/// The file without which a directory is no database.
const CONTROL: &str = "control";

/// A rebuild within this time after the last one waits before it begins.
const AGAIN_WITHIN: Duration = Duration::from_secs(600);

/// Fills `data` from the primary, as the node `node`; its database must be closed. Returns when `data` is the new
/// directory. Waits while neither the primary nor a peer that leads can be reached.
///
/// # Errors
/// Those of the disk; a primary that refuses for good. `data` is then as it was.
///
/// # Durability
/// The new directory is on disk on return.
pub(crate) async fn rebuild(
    config: &Config,
    primary: &str,
    data: &Path,
    node: u64,
    env: &Env,
) -> Result<Cloned, ServeError> {
    let (partial, mut backoff) = (partial_of(data), Backoff::default());
    if is_there(env, data)? && is_empty(env, data)? {
        // A filled directory is accessible to its owner only, however it was created.
        env.files.close_to_others(data).map_err(failed("close to others", data))?;
    }
    let key = key_of(config, data, env);
    // The primary may follow another node before the copy is whole.
    let addresses = Addresses::new(Some(primary), &config.replication.peers);
    loop {
        remove(env, &partial)?;
        let cloned = fill(&addresses, &partial, node, (&follow_options(config, node), &key), env).await?;
        match block_in_place(|| plant(&cloned, node, &partial, env)) {
            Ok(()) => {
                exchange(data, env)?;
                return Ok(cloned);
            }
            // A5
            Err(error) if error.kind() == ErrorKind::Corruption => {
                let wait = backoff.next(false, env.random.u64());
                log_lines::warn(&format_args!(
                    "the base backup from {} is not whole: {error}; next try in {} ms",
                    addresses.first(),
                    wait.as_millis()
                ));
                sleep(wait).await;
            }
            Err(error) => return Err(ServeError::Open(error.into())),
        }
    }
}

/// Makes the complete copy count, and replaces the old contents with it (A2).
fn exchange(data: &Path, env: &Env) -> Result<(), ServeError> {
    if let Some(above) = data.parent().filter(|above| !above.as_os_str().is_empty()) {
        // The directory may be as new as the copy.
        env.files.sync_dir(above).map_err(failed("sync", above))?;
    }
    let whole = data.join(WHOLE);
    env.files.replace(&partial_of(data), &whole).map_err(failed("name", &whole))?;
    settle(data, env)
}

/// Completes an exchange that a crash has interrupted. Must be called before the directory is opened, and while no
/// other server has it ([`guard`](super::guard::guard)).
///
/// # Errors
/// Those of the disk.
///
/// # Durability
/// That of [`rebuild`].
pub(crate) fn settle(data: &Path, env: &Env) -> Result<(), ServeError> {
    settle_beside(data, env)?;
    let (whole, moving) = (data.join(WHOLE), data.join(MOVING));
    if is_there(env, &whole)? {
        let stays = |name: &str| name == WHOLE || MOVED_ON.contains(&name) || STAYS.contains(&name);
        for name in list(env, data)?.iter().filter(|name| !stays(name)) {
            remove_for_good(env, &data.join(name))?;
        }
        // The old contents must be gone before any part of the copy can be mistaken for them.
        env.files.sync_dir(data).map_err(failed("sync", data))?;
        env.files.replace(&whole, &moving).map_err(failed("name", &moving))?;
    }
    if is_there(env, &moving)? {
        let mut names = list(env, &moving)?;
        names.sort_by_key(|name| name == CONTROL);
        for name in names {
            let to = data.join(&name);
            env.files.replace(&moving.join(&name), &to).map_err(failed("move", &to))?;
        }
        remove(env, &moving)?;
    }
    remove(env, &partial_of(data))
}

/// Completes an exchange by an older version, which filled `DIR.collie-partial` and exchanged whole directories:
/// `DIR.collie-before` is the old one.
fn settle_beside(data: &Path, env: &Env) -> Result<(), ServeError> {
    remove(env, &beside(data, ".collie-partial"))?;
    let before = before_of(data);
    if !is_there(env, &before)? {
        return Ok(());
    }
    if is_empty(env, data)? {
        remove(env, data)?;
        return env.files.replace(&before, data).map_err(failed("give its name back to", data));
    }
    // A3
    for name in MOVED_ON {
        let (old, new) = (before.join(name), data.join(name));
        if is_there(env, &old)? && !is_there(env, &new)? {
            env.files.replace(&old, &new).map_err(failed("move on", &new))?;
        }
    }
    remove(env, &before)
}

/// Returns whether there is no directory, or nothing in it except, perhaps, the key by which it is to be filled.
///
/// # Errors
/// Those of the disk.
pub(crate) fn is_empty(env: &Env, data: &Path) -> Result<bool, ServeError> {
    Ok(list(env, data)?.iter().all(|name| [KEY_FILE, LOST_AND_FOUND].contains(&name.as_str())))
}

/// Returns whether an exchange has begun that [`settle`] must complete.
pub(super) fn is_exchanged(env: &Env, data: &Path) -> Result<bool, ServeError> {
    Ok(is_there(env, &before_of(data))? || is_there(env, &data.join(WHOLE))? || is_there(env, &data.join(MOVING))?)
}

/// Returns the options with which a node follows.
pub(crate) fn follow_options(config: &Config, node: u64) -> FollowOptions {
    FollowOptions {
        slot: match config.replication.slot.as_str() {
            "" => format!("node-{node:016x}"),
            name => name.to_owned(),
        },
        timeout: config.replication.timeout,
        may_copy: config.replication.auto_rebuild,
    }
}

/// The wait before a directory is rebuilt that was rebuilt recently.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    last_ns: Option<u64>,
    backoff: Backoff,
}

impl Patience {
    /// Returns how long to wait before the next rebuild, which counts from now.
    pub(crate) fn next(&mut self, env: &Env) -> Duration {
        let now_ns = env.clock.now_ns();
        let last_ns = self.last_ns.replace(now_ns);
        let soon = last_ns.is_some_and(|last| u128::from(now_ns.saturating_sub(last)) < AGAIN_WITHIN.as_nanos());
        if !soon {
            self.backoff.reset();
            return Duration::ZERO;
        }
        // Whole copies are more expensive than connections.
        self.backoff.next(false, env.random.u64()) * 6
    }
}

fn partial_of(data: &Path) -> PathBuf {
    data.join(PARTIAL)
}

fn before_of(data: &Path) -> PathBuf {
    beside(data, ".collie-before")
}

pub(super) fn beside(data: &Path, suffix: &str) -> PathBuf {
    let mut name = data.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    data.with_file_name(name)
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ServeError {
    let what = path.display().to_string();
    move |source| ServeError::Io { operation, what, source }
}

pub(super) fn is_there(env: &Env, dir: &Path) -> Result<bool, ServeError> {
    match env.files.list(dir) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("list", dir)(error)),
    }
}

/// Returns the names in a directory; none if it does not exist.
pub(crate) fn list(env: &Env, dir: &Path) -> Result<Vec<String>, ServeError> {
    match env.files.list(dir) {
        Ok(names) => Ok(names),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed("list", dir)(error)),
    }
}

/// Removes a file, or a directory with all its contents, if it exists.
fn remove(env: &Env, path: &Path) -> Result<(), ServeError> {
    let removed = match env.files.list(path) {
        Ok(_) => env.files.remove_dir_all(path),
        Err(_no_directory) => env.files.remove(path),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Does the same as [`remove`]; no part comes back after a power cut once the directory around it is synced.
fn remove_for_good(env: &Env, path: &Path) -> Result<(), ServeError> {
    if let Ok(names) = env.files.list(path) {
        for name in names {
            remove_for_good(env, &path.join(name))?;
        }
        env.files.sync_dir(path).map_err(failed("sync", path))?;
    }
    remove(env, path)
}

/// Requests base backups until one is complete, each from the first node that gives one.
async fn fill(
    addresses: &Addresses,
    dir: &Path,
    node: u64,
    (options, key): (&FollowOptions, &KeyFile),
    env: &Env,
) -> Result<Cloned, ServeError> {
    let mut backoff = Backoff::default();
    loop {
        let one = async {
            let io = addresses.connect(&options.slot, key).await?;
            env.files.create_dir_all(dir)?;
            clone(io, dir, node, options, env, &mut |_done, _total| ()).await
        };
        let error = match one.await {
            Ok(cloned) => return Ok(cloned),
            Err(error) => error,
        };
        // Half a backup is of no use: the transfer starts over.
        remove(env, dir)?;
        let primary = addresses.first();
        if error.is_fatal() {
            return Err(ServeError::Replication { message: format!("{primary} gives no base backup: {error}") });
        }
        let wait = backoff.next(false, env.random.u64());
        log_lines::warn(&format_args!(
            "no base backup from {primary} yet: {error}; next try in {} ms",
            wait.as_millis()
        ));
        sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use collie_env::{Access, Fault};

    use super::*;

    const DATA: &str = "/replicas/data";

    fn put(env: &Env, path: &Path, text: &[u8]) {
        let above = path.parent().unwrap();
        env.files.create_dir_all(above).unwrap();
        let file = env.files.create(path).unwrap();
        file.write_at(0, text).unwrap();
        file.sync_data().unwrap();
        for dir in above.ancestors() {
            env.files.sync_dir(dir).unwrap();
        }
    }

    fn read(env: &Env, path: &Path) -> Option<Vec<u8>> {
        let file = env.files.open(path, Access::Read).ok()?;
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        Some(bytes)
    }

    /// Goal: A1 to A3: whenever the power is cut, there is one whole database afterwards, the old one or the new one,
    /// with the set-aside log tails, the samples and models, and the promises; a second power cut during the completion
    /// changes nothing. Method: a power cut at every call of the exchange, in several states of the disk, and at every
    /// other call of the completion.
    #[test]
    fn an_exchange_of_databases_leaves_one_of_them() {
        let data = Path::new(DATA);
        let mut met = [0; 2];
        for (call, again, seed) in (1..32)
            .flat_map(|call| (1..20).step_by(2).flat_map(move |again| (0..3).map(move |seed| (call, again, seed))))
        {
            let (env, disk) = Env::simulated(seed);
            let stays =
                ["diverged/1", "samples/1", "models/1", "copies/1", "promise", "replication.key", "lost+found/1"];
            stays.iter().for_each(|name| put(&env, &data.join(name), b"stays"));
            for name in ["control", "wal/1", "slots"] {
                put(&env, &data.join(name), b"old");
            }
            for name in ["control", "levels/1"] {
                put(&env, &partial_of(data).join(name), b"new");
            }
            disk.fail_call(disk.calls() + call, Fault::PowerCut);
            let done = exchange(data, &env).is_ok();
            let disk = disk.power_cut(seed);
            let env = Env::over(disk.clone(), seed);
            disk.fail_call(disk.calls() + again, Fault::PowerCut);
            let _cut = settle(data, &env);
            let env = Env::over(disk.power_cut(seed), seed);
            settle(data, &env).unwrap();
            let what = format!("call {call}, {again}, seed {seed}");
            let is_new = match read(&env, &data.join("control")).as_deref() {
                Some(b"new") => true,
                Some(b"old") => false,
                other => panic!("{what}: {other:?}"),
            };
            assert!(is_new || !done, "{what}: it had returned");
            for (name, is_there) in [("wal/1", !is_new), ("slots", !is_new), ("levels/1", is_new)] {
                assert_eq!(read(&env, &data.join(name)).is_some(), is_there, "{what}: {name}");
            }
            for name in stays {
                assert_eq!(read(&env, &data.join(name)).as_deref(), Some(&b"stays"[..]), "{what}: {name}");
            }
            assert!(!list(&env, data).unwrap().iter().any(|name| name.starts_with("copy-")), "{what}");
            met[usize::from(is_new)] += 1;
        }
        assert!(met.iter().all(|count| *count > 0), "{met:?}");
    }

    /// Goal: the remains of an exchange of whole directories by an older version become one directory. Method: its two
    /// states.
    #[test]
    fn an_exchange_of_directories_of_an_older_version_is_ended() {
        let data = Path::new(DATA);
        for is_named in [false, true] {
            let (env, _disk) = Env::simulated(1);
            put(&env, &before_of(data).join("control"), b"old");
            put(&env, &before_of(data).join("diverged/1"), b"set aside");
            if is_named {
                put(&env, &data.join("control"), b"new");
            }
            settle(data, &env).unwrap();
            let control = if is_named { &b"new"[..] } else { b"old" };
            assert_eq!(read(&env, &data.join("control")).as_deref(), Some(control));
            assert_eq!(read(&env, &data.join("diverged/1")).as_deref(), Some(&b"set aside"[..]));
            assert_eq!(list(&env, data.parent().unwrap()).unwrap(), ["data"]);
        }
    }

    /// Goal: a directory that does not exist, is empty, or holds only the key gets a database too, and nothing is made
    /// next to it: a mount point stays one. Method: each of them.
    #[test]
    fn an_empty_directory_is_filled_in_place() {
        for (is_there, has_key) in [(false, false), (true, false), (true, true)] {
            let (env, _disk) = Env::simulated(1);
            let data = Path::new(DATA);
            if is_there {
                env.files.create_dir_all(data).unwrap();
                put(&env, &data.join("lost+found/1"), b"of the file system");
                assert!(super::is_empty(&env, data).unwrap());
            }
            if has_key {
                put(&env, &data.join(KEY_FILE), b"a key");
            }
            assert!(super::is_empty(&env, data).unwrap());
            put(&env, &partial_of(data).join("control"), b"new");
            exchange(data, &env).unwrap();
            assert_eq!(read(&env, &data.join(KEY_FILE)).is_some(), has_key);
            assert!(!super::is_empty(&env, data).unwrap());
            assert_eq!(read(&env, &data.join("control")).as_deref(), Some(&b"new"[..]));
            assert_eq!(list(&env, data.parent().unwrap()).unwrap(), ["data"]);
        }
    }

    /// Goal: consecutive copies are not made without a pause. Method: two in a row.
    #[test]
    fn copies_that_follow_each_other_wait() {
        let (env, _disk) = Env::simulated(1);
        let mut patience = Patience::default();
        assert_eq!(patience.next(&env), Duration::ZERO);
        assert!(patience.next(&env) >= Duration::from_millis(300));
    }
}
