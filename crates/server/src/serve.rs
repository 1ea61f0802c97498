//! `Server`: opens the database, listens, accepts, and stops.
//!
//! A database may be opened several times while the server runs: a replica that cannot be brought up to date is closed,
//! rebuilt and opened again, on the same address. `Life` is one of these openings.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use collie_base::{Lsn, Term};
use collie_engine::{OpenProgress, OpenReport, Options, Replica};
use collie_env::{Env, FileLock};
use collie_replica::{
    Difference,
    database::EngineTarget,
    primary::Slots,
    standby::{Cloned, Ended},
    term::Terms,
};
use collie_sql::session::{Database, Promotion, ReplicasAsked};
use tokio::{
    net::TcpListener,
    runtime::Runtime,
    sync::watch,
    task::JoinSet,
    time::{self, sleep},
};

use crate::{
    config::Config,
    connection::{Shared, serve},
    error::ServeError,
    half_open::HalfOpen,
    http::{HttpPort, Limits, Readiness},
    log_lines,
    reads::feed,
    replication::{
        self, Exchange, Following, Healing, LeadCheck, Node, Patience, Rejoin, Replicas, Role, ShownNode, announce,
        choose, difference, guard, hand_over, is_empty, key, name_of, others, reason, rebuild, set_aside, settle,
    },
    starting::Starting,
    stop_requests::StopRequests,
    stopping::flush_tables,
    training::{Collector, LiveGauge, LiveKnobs, Training, Whose, decide, shown},
};

/// How long sessions may take to finish their statements when the server stops.
const STOP_TIME: Duration = Duration::from_secs(5);

/// The minimum of the limit on threads for blocking work; threads are started on demand.
const BLOCKING_THREADS: usize = 512;

/// The detail for a replica's clients while it has no database.
const NOT_THERE_YET: &str = "The database is being opened or, if it is a replica, being filled or brought up to date.";

/// A server that listens.
pub struct Server {
    runtime: Runtime,
    listener: Arc<TcpListener>,
    ground: Ground,
    address: SocketAddr,
    http: Option<HttpPort>,
    life: Life,
    /// Created before the server reports that it listens.
    stops: StopRequests,
}

/// The state that stays the same when the database is opened again.
struct Ground {
    config: Config,
    data: PathBuf,
    env: Env,
    patience: Patience,
    /// The open database, for the HTTP port.
    stage: Arc<Readiness>,
    healing: Healing,
    /// How much is collected, and the changes that users made to that.
    training: Arc<Training>,
    /// The lock of a directory that may be exchanged: held until the process ends.
    _guard: Option<Box<dyn FileLock>>,
}

/// An open database, and its replicas or its primary.
struct Life {
    database: Arc<Database>,
    /// The port for replicas, if they are served.
    replicas: Option<Replicas>,
    /// The connection to the primary, if this is a replica.
    following: Option<Following>,
    /// The address at which replicas are served.
    replica_address: Option<SocketAddr>,
    /// The node with its terms.
    node: Node,
    /// The thread that collects samples, unless nothing can be written.
    collector: Option<Collector>,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// In order, after a request to stop: commits finished, log flushed.
    Clean,
}

/// The reason why a database is closed.
enum Over {
    /// A request to stop.
    Stop,
    /// The primary can no longer bring the replica up to date: it has to be rebuilt.
    Rebuild,
    /// A higher term has begun than the one in which it led: it has to follow the node that leads.
    Deposed(Term),
    /// From this position on, its log goes on where the primary's does not.
    Diverged(Lsn),
    /// The replica's rows, or its log, differ from the primary's.
    Differs(Difference),
}

impl Over {
    /// Returns what the server does then, in words.
    fn words(&self) -> &'static str {
        match self {
            Self::Stop => "it is stopping",
            Self::Rebuild => "its primary cannot bring this directory up to date any more: it is being rebuilt",
            Self::Deposed(_) => "another node leads: it is opened again as a replica",
            Self::Diverged(_) => "its log goes on where that of its primary does not: it is cut there",
            Self::Differs(_) => "its rows are not its primary's: it is stopping",
        }
    }
}

/// Waits for `work`; returns `None` if a request to stop came first. Without `stops`, signals have their default
/// effect: they end the process.
async fn unless_stopped<T>(stops: &mut Option<&mut StopRequests>, work: impl Future<Output = T>) -> Option<T> {
    match stops {
        None => Some(work.await),
        Some(stops) => tokio::select! {
            () = stops.next() => None,
            done = work => Some(done),
        },
    }
}

/// Fails if a directory `is_to_be` rebuilt, and the configuration requires an operator for that.
fn may_rebuild(is_to_be: bool, config: &Config) -> Result<(), ServeError> {
    if is_to_be && !config.replication.auto_rebuild {
        return Err(ServeError::Replication { message: reason(&Ended::Rebuild) });
    }
    Ok(())
}

/// Returns the error of a replica that only an operator can repair.
fn stopped(reason: &str, remedy: &str) -> ServeError {
    ServeError::Replication { message: format!("{reason}: {remedy}") }
}

/// Fills the directory of a replica that is closed, or empty; returns false if a request to stop came first.
fn fill(
    runtime: &Runtime,
    (config, primary, data, env): (&Config, &str, &Path, &Env),
    node: u64,
    patience: &mut Patience,
    stops: &mut Option<&mut StopRequests>,
) -> Result<bool, ServeError> {
    let filling = async {
        sleep(patience.next(env)).await;
        rebuild(config, primary, data, node, env).await
    };
    let Some(cloned) = runtime.block_on(unless_stopped(stops, filling)) else { return Ok(false) };
    let Cloned { files, bytes, .. } = cloned?;
    log_lines::note(&format_args!("copied {files} files, {bytes} bytes, from {primary}"));
    Ok(true)
}

/// Starts the decisions about the settings of an opened database, which end with it.
fn decide_about(
    database: &Arc<Database>,
    applying: Option<(Replica, Arc<EngineTarget>)>,
    config: &Config,
    training: &Arc<Training>,
    env: &Env,
    runtime: &Runtime,
) {
    let replica = applying.as_ref().map(|(replica, _)| replica.clone());
    let knobs = LiveKnobs::new(database, replica, config.engine.log.ring_bytes);
    let gauge = LiveGauge::new(database, applying, config.replication.ready_delay, env.clone());
    let (life, told) = training.deciding().begin(Arc::new(knobs), Box::new(gauge), training.clone());
    told.iter().for_each(|line| log_lines::note(&line));
    runtime.spawn(decide(training.clone(), life));
}

impl Life {
    /// Opens the directory; a replica's is filled first if it is empty, or if its primary cannot bring it up to date.
    /// Returns `None` if a request to stop came first.
    fn open(
        runtime: &Runtime,
        ground: &mut Ground,
        mut stops: Option<&mut StopRequests>,
        progress: &mut dyn FnMut(&OpenProgress),
    ) -> Result<Option<(Self, OpenReport)>, ServeError> {
        let Ground { config, data, env, patience, stage, healing, training, .. } = ground;
        let progress: &mut dyn FnMut(&OpenProgress) = &mut |now| {
            stage.opening(now);
            progress(now);
        };
        let replication = &config.replication;
        // Commits may have to wait for a quorum at any later time.
        let quorum = replication.quorum.is_some() || replication.listen.is_some();
        let engine = || Options { connections: config.sessions_max(), quorum, ..config.engine.clone() };
        // Checked before anything in the directory is changed.
        Slots::check(env, data)?;
        // An exchange that a crash has interrupted is completed before the directory is read.
        settle(data, env)?;
        let own_key = key::key_of(config, data, env);
        let (database, report, mut following) = match choose(runtime, config, (&**data, &own_key), env)? {
            Role::Primary => {
                let session = config.session.clone();
                let (database, report) = Database::open(data, engine(), env.clone(), session, progress)?;
                // After the open, so that only a node that leads makes a key (Y1 of `key.rs`).
                key::make(&own_key, config)?;
                (database, report, None)
            }
            Role::Replica(addresses) => {
                // A directory that differs from its primary's is not read again.
                difference::check(data, env)?;
                key::demand(&own_key)?;
                let mut node = is_empty(env, data)?.then(|| env.random.u64());
                let created = node.is_some();
                // Fills the directory if necessary, opens it, and waits until it can show a consistent state.
                let (db, mut report, following) = loop {
                    if node.is_some() {
                        stage.close(format!("the directory is being filled by {}", addresses.first()));
                    }
                    if let Some(node) = node
                        && !fill(runtime, (config, addresses.first(), data, env), node, patience, &mut stops)?
                    {
                        return Ok(None);
                    }
                    let opened = replication::open(runtime, config, engine(), &addresses, data, env, progress);
                    let (mut following, report) = match opened {
                        Ok(opened) => opened,
                        Err(error) => {
                            node = Some(healing.begin_at_open(error, data, config, env)?);
                            continue;
                        }
                    };
                    stage.close("what was received is being brought to where it can be shown");
                    let ended = match runtime.block_on(unless_stopped(&mut stops, following.database())) {
                        Some(Ok(db)) => break (db, report, following),
                        Some(Err(ended)) => Some(ended),
                        None => None,
                    };
                    // Following ended before that: the database is closed before its directory is changed.
                    let this = following.node();
                    following.close(runtime)?;
                    match ended {
                        None => return Ok(None),
                        Some(Ended::Rebuild) => {
                            let primary = addresses.first();
                            log_lines::warn(&format_args!(
                                "{primary} cannot bring this directory up to date any more: rebuilding it"
                            ));
                            node = Some(this);
                        }
                        Some(ended @ Ended::Damaged { .. }) => {
                            let reason = reason(&ended);
                            healing.begin(config, env).map_err(|remedy| stopped(&reason, &remedy))?;
                            log_lines::warn(&reason);
                            node = Some(this);
                        }
                        Some(Ended::Truncate { at, .. }) => {
                            node = (set_aside(data, at, env)? == Rejoin::Rebuild).then_some(this);
                            may_rebuild(node.is_some(), config)?;
                        }
                        Some(ended) => return Err(ServeError::Replication { message: reason(&ended) }),
                    }
                };
                report.created = created;
                let (database, mut damaged) = Database::over(db, env.clone(), config.session.clone())?;
                report.notices.append(&mut damaged);
                (database, report, Some(following))
            }
        };
        database.limit_resources(config.resources);
        database.block_by(|work| tokio::task::block_in_place(work));
        database.yield_by(|| Box::pin(tokio::task::yield_now()));
        let copies = config.copy_dir.clone().map_or_else(|| std::path::absolute(data.join("copies")), Ok);
        database.copy_below(copies.map_err(|source| ServeError::Io {
            operation: "look up",
            what: data.display().to_string(),
            source,
        })?);
        let db = database.engine().clone();
        let node = match &following {
            Some(following) => following.node_of(db),
            None => {
                let led = db.histories().0;
                let terms = Terms::open(env, data, db.node_id(), led);
                let terms = terms.map_err(|error| ServeError::Open(error.into()))?;
                terms.lead(led);
                Node { terms, db, replica: None, drops_list: Arc::default() }
            }
        };
        let named = (name_of(config, node.db.node_id()), others(config), own_key.clone());
        let lead = LeadCheck::new(node.clone(), named, replication.heartbeat, env.clone(), runtime.handle().clone());
        database.show_node(Box::new(match &following {
            Some(following) => following.shown(node.db.clone(), lead.clone()),
            None => ShownNode::leading(node.terms.clone(), lead.clone()),
        }));
        database.show_training(shown(training.clone()));
        if let Some(following) = &mut following {
            following.collect_by(runtime, training.clone());
            following.run_reads(&database, training.elastic().clone(), runtime);
            let (candidate, handle) = (following.candidate().clone(), runtime.handle().clone());
            database.promote_by(Box::new(move |how| {
                let candidate = candidate.clone();
                let promoting = handle.spawn(async move {
                    match how {
                        Promotion::Agreed => candidate.promote(false).await,
                        Promotion::Forced => candidate.promote(true).await,
                        Promotion::InTerm(term) => candidate.promote_in(Term::new(term)).await,
                        Promotion::Switchover { wait } => candidate.switch_over(wait).await,
                    }
                });
                handle.block_on(promoting).unwrap_or_else(|_| Err("the promotion was given up".to_owned()))
            }));
        } else if !config.engine.read_only {
            let peers = config.replication.voters();
            let name = name_of(config, node.db.node_id());
            runtime.spawn(announce(node.terms.clone(), peers, (name, own_key.clone()), node.db.clone()));
        }
        if !config.engine.read_only {
            let applying = following.as_ref().map(Following::applying);
            decide_about(&database, applying, config, training, env, runtime);
        }
        // Before any session is served, since replies at higher levels depend on it.
        if quorum {
            database.ask_replicas(ReplicasAsked {
                configured: config.replication.quorum.is_some(),
                timeout: config.replication.sync_timeout,
                shows_settled: !config.replication.show_applied,
            });
        }
        let replicas = match config.replication.listen {
            Some(address) => {
                let share = config.training.read_share;
                let reads = (share > 0.0).then(|| feed(&database, share));
                let served = (node.clone(), lead, own_key);
                let replicas = Replicas::bind(runtime, address, config, served, (&**data, reads), env.clone())?;
                database.show_replication(replicas.shown());
                // A later opening listens at the same address.
                config.replication.listen = Some(replicas.address());
                Some(replicas)
            }
            None => None,
        };
        let replica_address = replicas.as_ref().map(Replicas::address);
        // A damaged log is open for inspection only: nothing is learned from it.
        let is_whole = following.is_some() || !report.read_only;
        let collector = is_whole.then(|| {
            let (name, cluster) = (name_of(config, node.db.node_id()), node.db.cluster_id());
            let whose = Whose::of(data, cluster, name, config.trainer.clone());
            Collector::start(training.clone(), &database, whose, env)
        });
        // Last, so that HTTP finds a complete database.
        stage.open(database.clone());
        Ok(Some((Self { database, replicas, following, replica_address, node, collector }, report)))
    }

    /// Closes the database, handles the directory as `over` requires, and opens it again in its new role. Returns
    /// `None` if a request to stop came first.
    fn next(
        self,
        over: &Over,
        runtime: &Runtime,
        ground: &mut Ground,
        stops: &mut StopRequests,
    ) -> Result<Option<Self>, ServeError> {
        let Self { database, following, node, collector, .. } = self;
        let node = node.db.node_id();
        // Before anything is closed or moved (C1 of `collector`).
        collector.into_iter().for_each(Collector::end);
        let primary = following.as_ref().map(|following| following.primary().to_owned());
        if let Some(following) = following {
            following.close(runtime)?;
        }
        database.close().map_err(|error| ServeError::Close { message: error.to_string() })?;
        drop(database);
        let Ground { config, data, env, patience, .. } = ground;
        let is_rebuilt = match over {
            Over::Rebuild => true,
            Over::Diverged(at) => set_aside(data, *at, env)? == Rejoin::Rebuild,
            Over::Stop | Over::Deposed(_) | Over::Differs(_) => false,
        };
        may_rebuild(is_rebuilt, config)?;
        if is_rebuilt {
            let Some(primary) = primary else {
                return Err(ServeError::Replication { message: "there is no primary to be filled from".to_owned() });
            };
            log_lines::warn(&format_args!("{primary} cannot bring this directory up to date any more: rebuilding it"));
            if !fill(runtime, (config, &primary, data, env), node, patience, &mut Some(&mut *stops))? {
                return Ok(None);
            }
        }
        let next = Self::open(runtime, ground, Some(stops), &mut |_| ())?;
        Ok(next.map(|(next, _report)| next))
    }
}

impl Server {
    /// Opens the data directory and listens. No session is served before [`Server::run`]; until the database is open,
    /// clients get 57P03.
    ///
    /// # Errors
    /// The address is not on loopback or not free, the directory cannot be opened, or signals cannot be caught.
    pub fn start(
        config: Config,
        data: &Path,
        progress: &mut dyn FnMut(&OpenProgress),
    ) -> Result<(Self, OpenReport), ServeError> {
        Self::begin(config, data, Env::real(), progress, |runtime| runtime.block_on(async { StopRequests::catch() }))
    }

    /// Does the same with files, memory, clock and random numbers of the caller, for a program that simulates them. No
    /// signal is caught: [`Server::run`] stops in order once `stop` becomes true.
    ///
    /// # Errors
    /// Those of [`Server::start`].
    pub fn start_in(
        env: Env,
        stop: watch::Receiver<bool>,
        config: Config,
        data: &Path,
        progress: &mut dyn FnMut(&OpenProgress),
    ) -> Result<(Self, OpenReport), ServeError> {
        Self::begin(config, data, env, progress, |_| Ok(StopRequests::Program(stop)))
    }

    fn begin(
        mut config: Config,
        data: &Path,
        env: Env,
        progress: &mut dyn FnMut(&OpenProgress),
        stops: impl FnOnce(&Runtime) -> Result<StopRequests, ServeError>,
    ) -> Result<(Self, OpenReport), ServeError> {
        config.replication.settle_quorum()?;
        if !config.listen.ip().is_loopback() {
            return Err(ServeError::NotLoopback { address: config.listen, flag: "--listen" });
        }
        if config.replication.quorum.is_some()
            && config.replication.listen.is_none()
            && config.replication.primary.is_none()
        {
            let message =
                "replication.quorum has commits wait for replicas, and none are served: give --replica-listen"
                    .to_owned();
            return Err(ServeError::Setting { message });
        }
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let threads = if config.worker_threads == 0 { cores.max(2) } else { config.worker_threads };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("collie-worker")
            .thread_stack_size(8 << 20)
            // A blocking statement occupies its own thread: in the worst case, one for each session.
            .max_blocking_threads(config.sessions_max().max(BLOCKING_THREADS))
            .enable_all()
            .build()
            .map_err(|source| ServeError::Io { operation: "start", what: "worker threads".to_owned(), source })?;
        // The address first: a second server on the same port must not touch the directory.
        let listener = runtime
            .block_on(TcpListener::bind(config.listen))
            .map_err(|source| ServeError::listening(config.listen, "--listen", source))?;
        let address = listener.local_addr().map_err(|source| ServeError::Io {
            operation: "listen on",
            what: config.listen.to_string(),
            source,
        })?;
        let listener = Arc::new(listener);
        let stage = Arc::<Readiness>::default();
        let limits = Limits { connections_max: config.max_connections };
        let bind = |address| HttpPort::bind(&runtime, address, stage.clone(), limits, env.clock.clone());
        let http = config.http.map(bind).transpose()?;
        if let Some(http) = &http {
            log_lines::note(&format_args!("listening for HTTP on {}", http.address()));
        }
        // While the database opens, clients get 57P03.
        let starting = Starting::on(&runtime, listener.clone(), NOT_THERE_YET);
        let may_follow = config.replication.primary.is_some() || !config.replication.peers.0.is_empty();
        let exchange = match config.engine.read_only {
            _ if may_follow => Exchange::Possible,
            true => Exchange::ReadsOnly,
            false => Exchange::Never,
        };
        // Taken before the first look into the directory (L1 of `guard.rs`).
        let held = guard(data, exchange, &env)?;
        let (patience, healing) = Default::default();
        let training = Arc::new(Training::new(config.training.clone(), cores, data, env.clone()));
        training.deciding().note_given(config.given.iter().map(|(key, _)| *key));
        let mut ground =
            Ground { config, data: data.to_owned(), env, patience, stage, healing, training, _guard: held };
        let Some((life, report)) = Life::open(&runtime, &mut ground, None, progress)? else {
            return Err(ServeError::Replication { message: "opening was stopped".to_owned() });
        };
        drop(starting);
        // A process that learns that the server listens may stop it at once.
        let stops = stops(&runtime)?;
        Ok((Self { runtime, listener, ground, address, http, life, stops }, report))
    }

    /// Returns whether the server follows a primary.
    pub fn is_replica(&self) -> bool {
        self.life.database.engine().is_replica()
    }

    /// Returns the address at which it listens for replicas, if it does.
    pub fn replica_address(&self) -> Option<SocketAddr> {
        self.life.replica_address
    }

    /// Samples every call of an operating unit from now on while the server is a primary, if samples are kept. This is
    /// no setting, so that no file can switch it on (TRAIN-6 does not hold then).
    #[doc(hidden)]
    pub fn sample_everything(&self) {
        self.ground.training.sample_everything();
    }

    /// Returns the address of the HTTP port, if there is one.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpPort::address)
    }

    /// Returns the length of the log, in bytes, at which it makes the server flush tables: the effective value of
    /// `wal.max_total_wal_size`.
    pub fn log_bytes_max(&self) -> u64 {
        self.life.database.engine().log_bytes_max()
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts connections until SIGTERM or SIGINT, then finishes: sessions get [`STOP_TIME`] to end their statements,
    /// the log is flushed and closed. A replica that cannot be brought up to date is rebuilt in between, if
    /// `replication.auto_rebuild` permits it: sessions end, and clients get 57P03 until the database is open again.
    ///
    /// # Errors
    /// The log cannot be flushed, or a replica cannot continue.
    pub fn run(self) -> Result<Stopped, ServeError> {
        let Self { runtime, listener, mut ground, mut life, http, mut stops, .. } = self;
        let mut listener = Some(listener);
        let result = loop {
            let over = runtime.block_on(accept(&mut listener, &mut life, &mut ground, &mut stops));
            if let Ok(Over::Differs(difference)) = &over {
                // On disk before the server ends, so that the directory is not opened again.
                difference::keep(&ground.data, difference, &ground.env)?;
                let message = reason(&Ended::Differs(*difference));
                break Err(ServeError::Replication { message });
            }
            let (Ok(ended), Some(listener)) = (&over, &listener) else { break over };
            if let Over::Deposed(term) = ended {
                log_lines::warn(&format_args!(
                    "term {term} has begun: this node is no longer the primary; it follows the new one"
                ));
            }
            let starting = Starting::on(&runtime, listener.clone(), NOT_THERE_YET);
            match life.next(ended, &runtime, &mut ground, &mut stops)? {
                Some(next) => life = next,
                None => return Ok(Stopped::Clean),
            }
            drop(starting);
        };
        let Life { database, following, collector, .. } = life;
        // The collector ends before its database is closed (C1 of `collector`).
        collector.into_iter().for_each(Collector::end);
        if ground.config.flush_at_stop && matches!(result, Ok(Over::Stop)) {
            flush_tables(&runtime, &database, stops.next());
        }
        let closed = match following {
            Some(following) => following.close(&runtime),
            None => Ok(()),
        };
        drop(http);
        runtime.shutdown_timeout(STOP_TIME);
        database.close().map_err(|error| ServeError::Close { message: error.to_string() })?;
        closed.and(result).map(|_over| Stopped::Clean)
    }
}

/// Serves sessions until the database is to be closed, and ends them.
async fn accept(
    listener: &mut Option<Arc<TcpListener>>,
    life: &mut Life,
    ground: &mut Ground,
    stops: &mut StopRequests,
) -> Result<Over, ServeError> {
    let Ground { config, env, stage, healing, .. } = ground;
    let Some(accepting) = listener.clone() else { return Ok(Over::Stop) };
    let (stop, stopping) = watch::channel(false);
    let (database, node) = (life.database.clone(), life.node.clone());
    let shared = Arc::new(Shared {
        database: database.clone(),
        connections: AtomicUsize::new(0),
        half_open: HalfOpen::default(),
        max_connections: config.max_connections,
        reserved_connections: config.reserved_connections,
        max_message_bytes: config.max_message_bytes,
        stopping,
    });
    let mut connections = JoinSet::new();
    // Replicas stop after the sessions, so that they receive the sessions' last commits.
    let (stop_replicas, replicas_stopping) = watch::channel(false);
    let handing = life.replicas.as_ref().map(Replicas::handing);
    let handing_over = async {
        match &handing {
            Some(handing) => hand_over(handing.clone(), database.clone(), env.clone()).await,
            None => std::future::pending().await,
        }
    };
    let mut handing_over = Box::pin(handing_over);
    let replicas = life.replicas.take().map(|replicas| tokio::spawn(replicas.run(replicas_stopping)));
    let result = loop {
        let unfollowed = async {
            match &mut life.following {
                Some(following) => following.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            term = node.deposed() => break Ok(Over::Deposed(term)),
            never = &mut handing_over => match never {},
            ended = unfollowed => match ended {
                Ended::Rebuild => break Ok(Over::Rebuild),
                Ended::Truncate { at, .. } => break Ok(Over::Diverged(at)),
                Ended::Differs(difference) => break Ok(Over::Differs(difference)),
                ended @ Ended::Damaged { .. } => {
                    let reason = reason(&ended);
                    match healing.begin(config, env) {
                        Ok(()) => {
                            log_lines::warn(&reason);
                            break Ok(Over::Rebuild);
                        }
                        // The rows applied so far stay readable.
                        Err(remedy) => {
                            let problem = stopped(&reason, &remedy).to_string();
                            // The view is set before the line is logged: a reader of the line may query it at once.
                            database.show_problem(problem.clone());
                            log_lines::warn(&problem);
                        }
                    }
                }
                ended => break Err(ServeError::Replication { message: reason(&ended) }),
            },
            accepted = accepting.accept() => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(serve(socket, shared.clone()));
                }
                // No descriptor is free, or the peer has left already: existing connections continue; the loop retries
                // in a moment.
                Err(_) => time::sleep(Duration::from_millis(50)).await,
            },
            // A panic in a connection ended that connection alone (V3).
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = stops.next() => break Ok(Over::Stop),
        }
    };
    drop(accepting);
    if matches!(result, Ok(Over::Stop) | Err(_)) {
        *listener = None;
    }
    stage.close(result.as_ref().map_or("it is stopping", Over::words));
    drop(handing_over);
    if handing.is_some_and(|handing| handing.give_up("it stops")) {
        database.engine().resume_writes();
    }
    // Idle sessions leave at once, busy ones after their present statement; sessions that take longer are terminated.
    let _ = stop.send(true);
    if matches!(result, Ok(Over::Deposed(_))) {
        database.terminate_all(); // nothing can commit any more, and no waiting commit is answered
    }
    let all = async { while connections.join_next().await.is_some() {} };
    if time::timeout(STOP_TIME, all).await.is_err() {
        database.terminate_all();
        let _ = time::timeout(STOP_TIME, async { while connections.join_next().await.is_some() {} }).await;
    }
    if let Some(replicas) = replicas {
        if matches!(result, Ok(Over::Stop)) && node.leads() {
            let db = database.engine().clone();
            // An error in flushing the log is reported when it is closed.
            let _end = tokio::task::spawn_blocking(move || db.hold_log()).await;
        }
        let _ = stop_replicas.send(true);
        let _ = time::timeout(STOP_TIME, replicas).await;
    }
    result
}
