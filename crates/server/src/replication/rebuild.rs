//! [`rebuild`]: fills a replica's directory anew, and gives it its name, so that there is always a whole one.
//!
//! # Invariants
//! - A1. A base backup is written beside the directory, under the name `DIR.collie-partial`, and gets the directory's name only when it
//!   is whole and on disk: half a backup never opens.
//! - A2. The old directory is `DIR.collie-before` from just before that until just after. Whatever a crash leaves, [`settle`] makes of
//!   it one directory: the new one if it has its name, else the old one. Both are there at once, so there has to be room for both.
//! - A3. What was set aside in `diverged` moves on with the directory's name, as do `samples` and `models`, which tell of the machine and not of
//!   the rows. The file `promise`, by which a node keeps its word
//!   (replication.md R8), is in the new directory before that has its name.
//! - A4. All of it happens under the lock beside the directory (`guard.rs`), which no second server gets.
//!
//! | `DIR` | `DIR.collie-before` | a crash was | done at the next start |
//! |---|---|---|---|
//! | a database | none | before anything was renamed | nothing; it is filled anew once the primary says so again |
//! | none | the old one | between the two renames | the old one gets its name back |
//! | the new one | the old one, or a part of it | after both | `diverged`, `samples` and `models` move on, the rest is removed |
//!
//! Checked by the tests here: a power cut at every call to the disk.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use collie_env::{Env, read_all};
use collie_replica::{
    database::plant,
    standby::{Backoff, Cloned, FollowOptions, clone, connect},
};
use tokio::time::sleep;

use crate::{ServeError, config::Config};

/// Where what was set aside of a log is kept, and what was learned.
const MOVED_ON: [&str; 3] = ["diverged", "samples", "models"];

/// What a node has promised.
const PROMISE: &str = "promise";

/// A longer file of that name is none.
const PROMISE_BYTES_MAX: u64 = 1 << 16;

/// A primary that asks for it again within this time is given time.
const AGAIN_WITHIN: Duration = Duration::from_secs(600);

/// Fills `data` anew, as the node `node`, from the primary: its database must be closed. Returns when `data` is the new directory.
/// Waits for a primary that is not there.
///
/// # Errors
/// The disk's; a primary that refuses for good. `data` is then as it was.
///
/// # Durability
/// On disk when it returns.
pub(crate) async fn rebuild(
    config: &Config,
    primary: &str,
    data: &Path,
    node: u64,
    env: &Env,
) -> Result<Cloned, ServeError> {
    let partial = partial_of(data);
    remove(env, &partial)?;
    let cloned = fill(primary, &partial, node, &follow_options(config, node), env).await?;
    plant(&cloned, node, &partial, env).map_err(|error| ServeError::Open(error.into()))?;
    swap(data, env)?;
    Ok(cloned)
}

/// Gives `DIR.collie-partial`, which is whole, the name `data` (A2).
fn swap(data: &Path, env: &Env) -> Result<(), ServeError> {
    let (partial, before) = (partial_of(data), before_of(data));
    if is_there(env, data)? {
        // A3
        let (old, new) = (data.join(PROMISE), partial.join(PROMISE));
        match read_all(&*env.files, &old, PROMISE_BYTES_MAX) {
            Ok(promise) => write(env, &new, &promise).map_err(failed("write", &new))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("read", &old)(error)),
        }
        env.files.replace(data, &before).map_err(failed("set aside", data))?;
    }
    env.files.replace(&partial, data).map_err(failed("name", data))?;
    settle(data, env)
}

/// Ends what a crash left unfinished. Call it before the directory is opened, and while nobody else has it
/// ([`guard`](super::guard::guard)).
///
/// # Errors
/// The disk's.
///
/// # Durability
/// As [`rebuild`].
pub(crate) fn settle(data: &Path, env: &Env) -> Result<(), ServeError> {
    let before = before_of(data);
    if !is_there(env, &before)? {
        return Ok(());
    }
    if list(env, data)?.is_empty() {
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

/// How a node follows.
pub(crate) fn follow_options(config: &Config, node: u64) -> FollowOptions {
    FollowOptions {
        slot: match config.replication.slot.as_str() {
            "" => format!("node-{node:016x}"),
            name => name.to_owned(),
        },
        timeout: config.replication.timeout,
    }
}

/// How long to wait before a directory is filled anew that was just filled.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    last_ns: Option<u64>,
    backoff: Backoff,
}

impl Patience {
    /// Returns how long to wait before the next one, which begins now.
    pub(crate) fn next(&mut self, env: &Env) -> Duration {
        let now_ns = env.clock.now_ns();
        let last_ns = self.last_ns.replace(now_ns);
        let soon = last_ns.is_some_and(|last| u128::from(now_ns.saturating_sub(last)) < AGAIN_WITHIN.as_nanos());
        if !soon {
            self.backoff.reset();
            return Duration::ZERO;
        }
        // Whole copies are dearer than connections.
        self.backoff.next(false, env.random.u64()) * 6
    }
}

pub(crate) fn partial_of(data: &Path) -> PathBuf {
    beside(data, ".collie-partial")
}

pub(super) fn before_of(data: &Path) -> PathBuf {
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

/// Returns the names in a directory; none when it is not there.
pub(crate) fn list(env: &Env, dir: &Path) -> Result<Vec<String>, ServeError> {
    match env.files.list(dir) {
        Ok(names) => Ok(names),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed("list", dir)(error)),
    }
}

/// Writes a file that is not there; durable when this returns.
fn write(env: &Env, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = env.files.create(path)?;
    file.write_at(0, bytes)?;
    file.sync_data()?;
    path.parent().map_or(Ok(()), |above| env.files.sync_dir(above))
}

fn remove(env: &Env, dir: &Path) -> Result<(), ServeError> {
    match env.files.remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", dir)(error)),
        _ => Ok(()),
    }
}

/// Asks for base backups until one is whole.
async fn fill(primary: &str, dir: &Path, node: u64, options: &FollowOptions, env: &Env) -> Result<Cloned, ServeError> {
    let mut backoff = Backoff::default();
    loop {
        let one = async {
            let io = connect(primary, &options.slot).await?;
            env.files.create_dir_all(dir)?;
            clone(io, dir, node, options, env, &mut |_done, _total| ()).await
        };
        let error = match one.await {
            Ok(cloned) => return Ok(cloned),
            Err(error) => error,
        };
        // Half a backup is none: it is begun again.
        remove(env, dir)?;
        if error.is_fatal() {
            return Err(ServeError::Replication { message: format!("{primary} gives no base backup: {error}") });
        }
        let wait = backoff.next(false, env.random.u64());
        eprintln!("no base backup from {primary} yet: {error}; next try in {} ms", wait.as_millis());
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
        write(env, path, text).unwrap();
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

    /// Goal: A1 to A3: at whatever moment the power goes, there is one directory afterwards, the old one or the new one, whole, with what
    /// was set aside of a log and what was learned; and a second power cut while that is mended changes nothing. Method: a power cut at every call of the
    /// exchange, in several states of the disk, and at every call of the mending.
    #[test]
    fn an_exchange_of_directories_leaves_one_of_them() {
        let data = Path::new(DATA);
        let mut met = [0; 2];
        for (call, again, seed) in
            (1..24).flat_map(|call| (1..10).flat_map(move |again| (0..3).map(move |seed| (call, again, seed))))
        {
            let (env, disk) = Env::simulated(seed);
            put(&env, &data.join("control"), b"old");
            put(&env, &data.join("wal/1"), b"old log");
            put(&env, &data.join("diverged/1"), b"set aside");
            put(&env, &data.join("samples/1"), b"learned");
            put(&env, &data.join("models/1"), b"learned");
            put(&env, &data.join("promise"), b"term 7");
            put(&env, &partial_of(data).join("control"), b"new");
            disk.fail_call(disk.calls() + call, Fault::PowerCut);
            let done = swap(data, &env).is_ok();
            let disk = disk.power_cut(seed);
            let env = Env::over(disk.clone(), seed);
            disk.fail_call(disk.calls() + again, Fault::PowerCut);
            let _cut = settle(data, &env);
            let env = Env::over(disk.power_cut(seed), seed);
            settle(data, &env).unwrap();
            let is_new = match read(&env, &data.join("control")).as_deref() {
                Some(b"new") => true,
                Some(b"old") => false,
                other => panic!("call {call}, {again}, seed {seed}: {other:?}"),
            };
            assert!(is_new || !done, "call {call}, {again}, seed {seed}: it had returned");
            assert_eq!(read(&env, &data.join("wal/1")).is_some(), !is_new, "call {call}, {again}, seed {seed}");
            assert_eq!(
                read(&env, &data.join("diverged/1")).as_deref(),
                Some(&b"set aside"[..]),
                "call {call}, {again}, seed {seed}"
            );
            for learned in ["samples/1", "models/1"] {
                let found = read(&env, &data.join(learned));
                assert_eq!(found.as_deref(), Some(&b"learned"[..]), "call {call}, {again}, seed {seed}: {learned}");
            }
            assert_eq!(
                read(&env, &data.join("promise")).as_deref(),
                Some(&b"term 7"[..]),
                "call {call}, {again}, seed {seed}"
            );
            assert!(!is_there(&env, &before_of(data)).unwrap(), "call {call}, {again}, seed {seed}");
            met[usize::from(is_new)] += 1;
        }
        assert!(met.iter().all(|count| *count > 0), "{met:?}");
    }

    /// Goal: a directory that is not there, or empty, is named too. Method: both.
    #[test]
    fn an_empty_directory_is_replaced() {
        for is_there in [false, true] {
            let (env, _disk) = Env::simulated(1);
            let data = Path::new(DATA);
            put(&env, &partial_of(data).join("control"), b"new");
            if is_there {
                env.files.create_dir_all(data).unwrap();
            }
            swap(data, &env).unwrap();
            assert_eq!(read(&env, &data.join("control")).as_deref(), Some(&b"new"[..]));
            assert_eq!(list(&env, data.parent().unwrap()).unwrap(), ["data"]);
        }
    }

    /// Goal: a primary that asks for one copy after the other is not asked without a pause. Method: two in a row.
    #[test]
    fn copies_that_follow_each_other_wait() {
        let (env, _disk) = Env::simulated(1);
        let mut patience = Patience::default();
        assert_eq!(patience.next(&env), Duration::ZERO);
        assert!(patience.next(&env) >= Duration::from_millis(300));
    }
}
