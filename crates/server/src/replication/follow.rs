//! A server that is a replica: fills its directory if it is empty, opens it, follows, and says what has to be done when it
//! cannot go on as it is.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use collie_engine::{Db, OpenProgress, OpenReport, Options, Replica, ReplicaOptions};
use collie_env::Env;
use collie_replica::{
    database::{EngineTarget, plant},
    standby::{Backoff, Cloned, Ended, FollowOptions, Told, clone, connect, follow},
};
use tokio::{
    runtime::Runtime,
    sync::{oneshot, watch},
    task::JoinHandle,
    time::sleep,
};

use crate::{ServeError, config::Config};

/// How often it is looked whether there is something to show.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A replica that is open and follows.
pub(crate) struct Following {
    replica: Replica,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    ended: oneshot::Receiver<Ended>,
}

/// Fills the directory if there is no database in it, and opens it.
///
/// # Errors
/// The disk's; a primary that refuses for good. One that is not there is waited for.
pub(crate) fn open(
    runtime: &Runtime,
    config: &Config,
    engine: Options,
    primary: &str,
    data: &Path,
    env: &Env,
    progress: &mut dyn FnMut(&OpenProgress),
) -> Result<(Following, OpenReport), ServeError> {
    let io = |operation: &'static str, path: &Path| {
        let what = path.display().to_string();
        move |source| ServeError::Io { operation, what, source }
    };
    let files = &*env.files;
    let names = match files.list(data) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(io("list", data)(error)),
    };
    let options = |node: u64| FollowOptions {
        slot: match config.replication.slot.as_str() {
            "" => format!("node-{node:016x}"),
            name => name.to_owned(),
        },
        timeout: config.replication.timeout,
    };
    let created = names.is_empty();
    if created {
        let node = env.random.u64();
        let partial = partial_of(data);
        match files.remove_dir_all(&partial) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io("remove", &partial)(error)),
            _ => {}
        }
        let cloned = runtime.block_on(fill(primary, &partial, node, &options(node), env))?;
        eprintln!("copied {} files, {} bytes, from {primary}", cloned.files, cloned.bytes);
        plant(&cloned, node, &partial, env).map_err(|error| ServeError::Open(error.into()))?;
        files.replace(&partial, data).map_err(io("name", data))?;
    }
    let (replica, mut report) = Replica::open(data, engine, ReplicaOptions::default(), env, progress)
        .map_err(|error| ServeError::Open(error.into()))?;
    report.created = created;
    let (stop, stopping) = watch::channel(false);
    let (end, ended) = oneshot::channel();
    let target = Arc::new(EngineTarget::new(replica.clone()));
    let follow_options = options(replica.node_id());
    let (address, env, slot) = (primary.to_owned(), env.clone(), follow_options.slot.clone());
    let task = runtime.spawn(async move {
        let connecting = || connect(&address, &slot);
        let _nobody_asks = end.send(follow(connecting, target, follow_options, env, stopping, tell(&address)).await);
    });
    Ok((Following { replica, stop, task, ended }, report))
}

/// Says on standard error how it stands.
fn tell(primary: &str) -> impl Fn(Told) + Send + Sync {
    let primary = primary.to_owned();
    move |told| match told {
        Told::Following { from, .. } => eprintln!("following {primary} from {from}"),
        Told::CaughtUp { applied } => eprintln!("caught up with {primary} at {applied}"),
        Told::Lost { why, wait } => eprintln!("not following {primary}: {why}; next try in {} ms", wait.as_millis()),
        _ => {}
    }
}

fn partial_of(data: &Path) -> PathBuf {
    let mut name = data.file_name().unwrap_or_default().to_owned();
    name.push(".collie-partial");
    data.with_file_name(name)
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
        if let Err(source) = env.files.remove_dir_all(dir)
            && source.kind() != std::io::ErrorKind::NotFound
        {
            return Err(ServeError::Io { operation: "remove", what: dir.display().to_string(), source });
        }
        if error.is_fatal() {
            return Err(ServeError::Replication { message: format!("{primary} gives no base backup: {error}") });
        }
        let wait = backoff.next(false, env.random.u64());
        eprintln!("no base backup from {primary} yet: {error}; next try in {} ms", wait.as_millis());
        sleep(wait).await;
    }
}

impl Following {
    /// Waits until there is something to show.
    ///
    /// # Errors
    /// Following ended before.
    pub(crate) fn database(&mut self, runtime: &Runtime) -> Result<Db, ServeError> {
        runtime.block_on(async {
            loop {
                if let Some(db) = self.replica.db() {
                    return Ok(db);
                }
                if let Ok(ended) = self.ended.try_recv() {
                    return Err(ServeError::Replication { message: reason(&ended) });
                }
                sleep(LOOK_EVERY).await;
            }
        })
    }

    /// Waits until it cannot go on as it is; returns why.
    pub(crate) async fn ended(&mut self) -> String {
        match (&mut self.ended).await {
            Ok(ended) => reason(&ended),
            Err(_) => "the task that follows has ended".to_owned(),
        }
    }

    /// Stops following and closes the database.
    ///
    /// # Errors
    /// The log could not be flushed.
    pub(crate) fn close(self, runtime: &Runtime) -> Result<(), ServeError> {
        self.stop.send_replace(true);
        let _ended = runtime.block_on(self.task);
        self.replica.close().map_err(|error| ServeError::Close { message: error.to_string() })
    }
}

/// Says what is to be done.
fn reason(ended: &Ended) -> String {
    match ended {
        Ended::Stopped => "following was stopped".to_owned(),
        Ended::Truncate { at, term } => format!(
            "the primary of term {term} does not have what this log holds from {at} on: to follow it, stop here, set the directory \
             aside and start with an empty one (cutting and going on by itself is not built yet)"
        ),
        Ended::Rebuild => {
            "the primary cannot bring this directory up to date any more: set it aside and start with an empty one \
                           (doing so by itself is not built yet)"
                .to_owned()
        }
        Ended::Failed(why) => format!("the replica has to be opened again: {why}"),
        _ => "following has ended".to_owned(),
    }
}
