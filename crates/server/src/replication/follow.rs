//! A server that is a replica: opens its directory, follows its primary, and reports what has to be done when it cannot
//! continue in its present state.

use std::{
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use collie_engine::{Db, DirectoryIdentity, OpenProgress, OpenReport, Options, Replica, ReplicaOptions};
use collie_env::Env;
use collie_replica::{
    database::{CONSUMER_PREFIX, EngineTarget},
    primary::Degrade,
    standby::{Ended, TO_BE_FILLED, Told, follow},
    term::Terms,
};
use collie_sql::session::Database;
use collie_train::policy::ElasticBudget;
use tokio::{
    runtime::Runtime,
    sync::{Mutex, oneshot, watch},
    task::JoinHandle,
    time::sleep,
};

use super::{
    candidate::{Candidate, Node},
    contact::{Contact, Follows, ShownNode},
    key::key_of,
    lead_check::LeadCheck,
    peers::Addresses,
    rebuild::follow_options,
    role::name_of,
};
use crate::{
    ServeError,
    config::Config,
    log_lines,
    reads::ReadRunner,
    training::{Sensors, Training, tick},
};

/// The time between two checks whether there is a database to show.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A replica that is open and follows.
pub(crate) struct Following {
    replica: Replica,
    task: JoinHandle<()>,
    ended: oneshot::Receiver<Ended>,
    has_ended: bool,
    /// The reason of its end was returned: from then on the replica stays in its state and serves reads.
    stands: bool,
    /// A former primary shows nothing before its first attempt to follow: its log may continue where the primary's does
    /// not.
    may_show: Arc<AtomicBool>,
    candidate: Arc<Candidate>,
    addresses: Arc<Addresses>,
    contact: Arc<Contact>,
    slot: String,
    ready_delay: Option<Duration>,
    /// The task that decides how much the replica may collect.
    ticking: Option<JoinHandle<()>>,
    reads: Arc<ReadRunner>,
}

/// Opens a replica's directory, and follows.
///
/// # Errors
/// Those of the disk.
pub(crate) fn open(
    runtime: &Runtime,
    config: &Config,
    engine: Options,
    addresses: &Arc<Addresses>,
    data: &Path,
    env: &Env,
    progress: &mut dyn FnMut(&OpenProgress),
) -> Result<(Following, OpenReport), ServeError> {
    let follows = DirectoryIdentity::read(data, env)
        .map_err(|error| ServeError::Open(error.into()))?
        .is_some_and(|who| who.follows);
    let mut applying = ReplicaOptions::default();
    applying.apply_workers = config.replication.apply_workers;
    let (replica, report) =
        Replica::open(data, engine, applying, env, progress).map_err(|error| ServeError::Open(error.into()))?;
    forget_slots(&replica, data, env)?;
    let node = replica.node_id();
    let terms = Terms::open(env, data, node, replica.histories().0).map_err(|error| ServeError::Open(error.into()))?;
    let (stop, stopping) = watch::channel(false);
    let (tell_stopped, stopped) = watch::channel(false);
    let (end, ended) = oneshot::channel();
    let reads = ReadRunner::new(env);
    let target = EngineTarget::new(replica.clone()).going_by(terms.clone()).reading(reads.inbox().clone());
    let target = Arc::new(target);
    let candidate = Arc::new(Candidate {
        replica: replica.clone(),
        target: target.clone(),
        terms,
        peers: config.replication.voters(),
        degrades: config.replication.degrade != Degrade::Wait,
        addresses: addresses.clone(),
        switchover_timeout: config.replication.switchover_timeout,
        configured: config.replication.quorum.clone(),
        counts: config.replication.listen.is_some(),
        name: name_of(config, node),
        key: key_of(config, data, env),
        env: env.clone(),
        stop,
        stopped,
        led: OnceLock::new(),
        drops_list: Arc::default(),
        promoting: Mutex::new(()),
        training: OnceLock::new(),
    });
    let follow_options = follow_options(config, node);
    let contact = Arc::new(Contact::new(env));
    let (noted, own_slot) = (contact.clone(), follow_options.slot.clone());
    let (from, env, slot) = (addresses.clone(), env.clone(), follow_options.slot.clone());
    let key = key_of(config, data, &env);
    // The log of a former primary may have to be cut first: it is shown after the first attempt to follow.
    let may_show = Arc::new(AtomicBool::new(follows));
    let tried = may_show.clone();
    let running = reads.clone();
    let task = runtime.spawn(async move {
        let connecting = || from.connect(&slot, &key);
        let told = |told| {
            tried.store(true, Relaxed);
            noted.told(&told);
            tell(from.first(), told);
        };
        let how = follow(connecting, target, follow_options, env, stopping, told).await;
        // Before `tell_stopped`, for which a promotion waits.
        running.end().await;
        noted.ended(&how);
        tell_stopped.send_replace(true);
        let _nobody_asks = end.send(how);
    });
    let following = Following {
        replica,
        task,
        ended,
        has_ended: false,
        stands: false,
        may_show,
        candidate,
        addresses: addresses.clone(),
        contact,
        slot: own_slot,
        ready_delay: config.replication.ready_delay,
        ticking: None,
        reads,
    };
    Ok((following, report))
}

/// Forgets the replicas of a former primary: its log is no longer kept for any.
fn forget_slots(replica: &Replica, data: &Path, env: &Env) -> Result<(), ServeError> {
    let Some(log) = replica.follower().map(|follower| follower.log()) else { return Ok(()) };
    for consumer in log.consumers().iter().filter(|consumer| consumer.name.starts_with(CONSUMER_PREFIX)) {
        let removed = log.remove_consumer(&consumer.name);
        removed.map_err(|error| ServeError::Open(collie_engine::EngineError::from(error).into()))?;
    }
    match env.files.remove(&data.join("slots")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ServeError::Io { operation: "remove", what: data.join("slots").display().to_string(), source: error })
        }
        _ => Ok(()),
    }
}

/// Logs a change of the connection.
fn tell(primary: &str, told: Told) {
    match told {
        Told::Following { from, .. } => log_lines::note(&format_args!("following {primary} from {from}")),
        Told::CaughtUp { applied } => log_lines::note(&format_args!("caught up with {primary} at {applied}")),
        Told::Lost { why, wait } => {
            log_lines::note(&format_args!("not following {primary}: {why}; next try in {} ms", wait.as_millis()))
        }
        _ => {}
    }
}

impl Following {
    /// Returns the id of the directory.
    pub(crate) fn node(&self) -> u64 {
        self.replica.node_id()
    }

    /// Waits until there is a database to show. The error is the reason why following ended before.
    pub(crate) async fn database(&mut self) -> Result<Db, Ended> {
        loop {
            if let Some(db) = self.replica.db().filter(|_| self.may_show.load(Relaxed)) {
                return Ok(db);
            }
            if let Ok(ended) = self.ended.try_recv() {
                return Err(ended);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Runs sampled reads of the primary on `database` from now on, as long as the replica follows.
    pub(crate) fn run_reads(&self, database: &Arc<Database>, budget: Arc<ElasticBudget>, runtime: &Runtime) {
        self.reads.start(database, budget, runtime.handle());
    }

    /// Returns the address of the primary that it follows or looks for.
    pub(crate) fn primary(&self) -> &str {
        self.addresses.first()
    }

    /// From now on `training` decides how much the replica may collect, until it is promoted or closed.
    pub(crate) fn collect_by(&mut self, runtime: &Runtime, training: Arc<Training>) {
        let Candidate { target, env, training: of_candidate, .. } = &*self.candidate;
        let (replica, reads) = (self.replica.clone(), self.reads.clone());
        let sensors = Sensors::new(replica, target.clone(), training.clone(), reads, env.clone());
        // A later promotion finds it there.
        let _only_once = of_candidate.set(training.clone());
        let life = training.begin();
        self.ticking = Some(runtime.spawn(tick(training, life, sensors)));
    }

    /// Returns the parts that apply the primary's log here and that receive its messages.
    pub(crate) fn applying(&self) -> (Replica, Arc<EngineTarget>) {
        (self.replica.clone(), self.candidate.target.clone())
    }

    /// Returns the object that can make it a primary.
    pub(crate) fn candidate(&self) -> &Arc<Candidate> {
        &self.candidate
    }

    /// Returns the node, whose database is `db`.
    pub(crate) fn node_of(&self, db: Db) -> Node {
        let (terms, drops_list) = (self.candidate.terms.clone(), self.candidate.drops_list.clone());
        Node { terms, db, replica: Some(self.replica.clone()), drops_list }
    }

    /// Returns the data of views about the node, whose database is `db`.
    pub(crate) fn shown(&self, db: Db, lead: Arc<LeadCheck>) -> ShownNode {
        let (candidate, addresses) = (self.candidate.clone(), self.addresses.clone());
        let (contact, slot, delay_max) = (self.contact.clone(), self.slot.clone(), self.ready_delay);
        let reads = self.reads.clone();
        let terms = candidate.terms.clone();
        ShownNode { terms, lead, follows: Some(Follows { db, candidate, addresses, contact, slot, reads }), delay_max }
    }

    /// Waits until the replica cannot continue in its present state; returns why, once. It never returns after a
    /// promotion.
    pub(crate) async fn ended(&mut self) -> Ended {
        // The future may be dropped and the function called again, so a received value is recorded.
        if !self.has_ended {
            let lost = |_| Ended::Failed("the task that follows has ended".to_owned());
            let ended = (&mut self.ended).await.unwrap_or_else(lost);
            self.has_ended = true;
            if ended != Ended::Stopped {
                self.stands = true;
                return ended;
            }
        }
        if self.stands {
            std::future::pending::<()>().await;
        }
        // A promotion has stopped it; the lock waits for the promotion to end.
        drop(self.candidate.promoting.lock().await);
        if self.candidate.led.get().is_some() {
            std::future::pending::<()>().await;
        }
        Ended::Failed("it was to be promoted, which failed".to_owned())
    }

    /// Stops following and closes the database.
    ///
    /// # Errors
    /// The log could not be flushed.
    pub(crate) fn close(self, runtime: &Runtime) -> Result<(), ServeError> {
        if let Some(ticking) = self.ticking {
            ticking.abort();
            let _given_up = runtime.block_on(ticking);
        }
        self.candidate.stop.send_replace(true);
        let _ended = runtime.block_on(self.task);
        self.replica.close().map_err(|error| ServeError::Close { message: error.to_string() })
    }
}

/// Returns the reason of an end, and what is to be done.
pub(crate) fn reason(ended: &Ended) -> String {
    match ended {
        Ended::Stopped => "following was stopped".to_owned(),
        Ended::Truncate { at, term } => {
            format!("the primary of term {term} does not have what this log holds from {at} on")
        }
        Ended::Rebuild => TO_BE_FILLED.to_owned(),
        Ended::Differs(difference) => format!(
            "{difference}: this directory must not be read; set it aside for a look, and start with an empty one"
        ),
        Ended::Damaged { at, why } => format!("replay has stopped at {at}, and nothing after it is shown: {why}"),
        Ended::Failed(why) => format!("the replica has to be opened again: {why}"),
        _ => "following has ended".to_owned(),
    }
}
