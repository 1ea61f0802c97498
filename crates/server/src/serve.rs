//! `Server`: opens the database, listens, accepts, and stops.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use collie_engine::{OpenProgress, OpenReport, Options};
use collie_env::Env;
use collie_sql::session::Database;
use tokio::{net::TcpListener, runtime::Runtime, sync::watch, task::JoinSet, time};

use crate::{
    config::Config,
    connection::{Shared, serve},
    error::ServeError,
    replication::{self, Following, Replicas},
};

/// How long sessions are given to finish what they run when the server stops.
const STOP_TIME: Duration = Duration::from_secs(5);

/// Threads for what blocks, at the least; they are made when they are needed.
const BLOCKING_THREADS: usize = 512;

/// A server that listens.
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    database: Arc<Database>,
    config: Config,
    address: SocketAddr,
    /// Who serves replicas, if it does.
    replicas: Option<Replicas>,
    /// What it follows, if it is a replica.
    following: Option<Following>,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// By a signal, in order: commits finished, log flushed.
    Clean,
}

impl Server {
    /// Opens the data directory and listens. Nothing is accepted before [`Server::run`].
    ///
    /// # Errors
    /// When the address is not on loopback or not free, or the directory cannot be opened.
    pub fn start(
        config: Config,
        data: &Path,
        progress: &mut dyn FnMut(&OpenProgress),
    ) -> Result<(Self, OpenReport), ServeError> {
        if !config.listen.ip().is_loopback() {
            return Err(ServeError::NotLoopback { address: config.listen });
        }
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let threads = if config.worker_threads == 0 { cores.max(2) } else { config.worker_threads };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("collie-worker")
            .thread_stack_size(8 << 20)
            // A statement that sleeps has a thread of its own meanwhile: one for each session, at the worst.
            .max_blocking_threads(config.max_connections.max(BLOCKING_THREADS))
            .enable_all()
            .build()
            .map_err(|source| ServeError::Io { operation: "start", what: "worker threads".to_owned(), source })?;
        // The address first: a second server on the same port must not touch the directory.
        let listener = runtime.block_on(TcpListener::bind(config.listen)).map_err(|source| match source.kind() {
            std::io::ErrorKind::AddrInUse => ServeError::AddressInUse { address: config.listen },
            _ => ServeError::Io { operation: "listen on", what: config.listen.to_string(), source },
        })?;
        let address = listener.local_addr().map_err(|source| ServeError::Io {
            operation: "listen on",
            what: config.listen.to_string(),
            source,
        })?;
        let env = Env::real();
        let engine = Options { connections: config.max_connections, ..config.engine.clone() };
        let (database, report, following) = match config.replication.primary.clone() {
            None => {
                let (database, report) = Database::open(data, engine, env.clone(), config.session.clone(), progress)?;
                (database, report, None)
            }
            Some(primary) => {
                if config.replication.listen.is_some() {
                    let message = "a replica serves no replicas of its own yet: leave --replica-listen out".to_owned();
                    return Err(ServeError::Setting { message });
                }
                let (mut following, mut report) =
                    replication::open(&runtime, &config, engine, &primary, data, &env, progress)?;
                let db = following.database(&runtime)?;
                let (database, mut damaged) = Database::over(db, env.clone(), config.session.clone())?;
                report.notices.append(&mut damaged);
                (database, report, Some(following))
            }
        };
        database.block_by(|work| tokio::task::block_in_place(work));
        let replicas = match config.replication.listen {
            Some(address) => {
                let db = database.engine().clone();
                let replicas = Replicas::bind(&runtime, address, &config, db, data, env)?;
                database.show_standbys(replicas.standbys());
                Some(replicas)
            }
            None => None,
        };
        Ok((Self { runtime, listener, database, config, address, replicas, following }, report))
    }

    /// Returns the address where it listens for replicas, if it does.
    pub fn replica_address(&self) -> Option<SocketAddr> {
        self.replicas.as_ref().map(Replicas::address)
    }

    /// Returns how many bytes of log make it flush tables, as `wal.max_total_wal_size` came out.
    pub fn log_bytes_max(&self) -> u64 {
        self.database.engine().log_bytes_max()
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts connections until SIGTERM or SIGINT, then finishes: sessions get [`STOP_TIME`] to end what they run, the
    /// log is flushed and closed.
    ///
    /// # Errors
    /// When signals cannot be caught, or the log cannot be flushed.
    pub fn run(self) -> Result<Stopped, ServeError> {
        let Self { runtime, listener, database, config, replicas, mut following, .. } = self;
        let result = runtime.block_on(accept(listener, &database, &config, replicas, following.as_mut()));
        let closed = match following {
            Some(following) => following.close(&runtime),
            None => Ok(()),
        };
        runtime.shutdown_timeout(STOP_TIME);
        database.close().map_err(|error| ServeError::Close { message: error.to_string() })?;
        closed.and(result).map(|()| Stopped::Clean)
    }
}

async fn accept(
    listener: TcpListener,
    database: &Arc<Database>,
    config: &Config,
    replicas: Option<Replicas>,
    mut following: Option<&mut Following>,
) -> Result<(), ServeError> {
    use tokio::signal::unix::{SignalKind, signal};
    let catching =
        |kind| signal(kind).map_err(|source| ServeError::Io { operation: "catch", what: "signals".to_owned(), source });
    let mut terminate = catching(SignalKind::terminate())?;
    let mut interrupt = catching(SignalKind::interrupt())?;
    let (stop, stopping) = watch::channel(false);
    let shared = Arc::new(Shared {
        database: database.clone(),
        connections: AtomicUsize::new(0),
        max_connections: config.max_connections,
        max_message_bytes: config.max_message_bytes,
        stopping,
    });
    let mut connections = JoinSet::new();
    let mut result = Ok(());
    let replicas = replicas.map(|replicas| tokio::spawn(replicas.run(shared.stopping.clone())));
    loop {
        let unfollowed = async {
            match &mut following {
                Some(following) => following.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = unfollowed => {
                result = Err(ServeError::Replication { message });
                break;
            }
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(serve(socket, shared.clone()));
                }
                // Out of descriptors, or the peer is gone again: those connected go on; try again in a moment.
                Err(_) => time::sleep(Duration::from_millis(50)).await,
            },
            // A panic in a connection ended that connection alone (V3).
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    drop(listener);
    // Idle sessions leave at once, busy ones after the statement they run; what takes longer is cancelled.
    let _ = stop.send(true);
    let all = async { while connections.join_next().await.is_some() {} };
    if time::timeout(STOP_TIME, all).await.is_err() {
        database.cancel_all();
        let _ = time::timeout(STOP_TIME, async { while connections.join_next().await.is_some() {} }).await;
    }
    if let Some(replicas) = replicas {
        let _ = time::timeout(STOP_TIME, replicas).await;
    }
    result
}
