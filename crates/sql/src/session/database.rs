//! `Database`: one open database, shared by its sessions: engine, newest catalog, plan cache, who is connected.
//!
//! Not a session, and it runs no statement.
//!
//! # Invariants
//! - D1. `catalog` is replaced only by the transaction that holds the catalog lock, once every later snapshot of any kind
//!   shows its commit, and before its locks end: whoever plans with a catalog finds the rows that its definitions name
//!   ([`Publication`](super::publication::Publication)).
//! - D2. Every catalog ever made has an epoch of its own, private ones of open transactions included.
//! - D3. An OID in a committed definition is never given out again: the transaction that uses it writes `next_oid` too.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

use arc_swap::ArcSwap;
use collie_base::{CfId, Latencies, Map, Remedy, SharedLatencies};
use collie_engine::{CancelHandle, Db, EngineError, Isolation, OpenProgress, OpenReport, StatementKind};
use collie_env::Env;
use parking_lot::Mutex;

use crate::{
    catalog::{
        damaged,
        snapshot::{Catalog, PUBLIC},
        store, system,
    },
    error::{Result, SqlError, SqlState},
    exec::RowIds,
    session::{
        Session,
        activity::Activity,
        cache::PlanCache,
        commit_times::CommitTimes,
        following::FollowedCatalog,
        referential::Questions,
        resource_limits::{ResourceLimits, ResourcesAsked},
        sampled::Sampling,
        settings::Settings,
        timer::Timer,
        workers::Workers,
    },
};

/// Name of the one database.
pub const DATABASE: &str = "collie";

/// One open database.
pub struct Database {
    pub(super) db: Db,
    pub(super) env: Env,
    pub(super) catalog: ArcSwap<Catalog>,
    pub(super) row_ids: RowIds,
    pub(super) plans: PlanCache,
    pub(super) questions: Questions,
    /// Settings every session starts with.
    defaults: Settings,
    epoch: AtomicU64,
    pub(super) next_oid: AtomicU32,
    /// Sessions that are running a statement now.
    pub(super) running: AtomicUsize,
    /// How long answers took.
    pub(super) latencies: SharedLatencies,
    connected: Mutex<Map<u32, Connected>>,
    next_pid: AtomicU32,
    /// Ends what takes too long.
    pub(super) timer: Timer,
    /// Who follows this database.
    pub(super) replication: OnceLock<Box<dyn crate::session::Replication>>,
    /// What is wrong with this copy of another's rows.
    pub(super) problem: OnceLock<String>,
    pub(super) promote: OnceLock<crate::session::Promote>,
    /// What the node knows of itself.
    pub(super) node_state: OnceLock<Box<dyn crate::session::NodeState>>,
    /// How much may be collected, and what came of it.
    pub(super) training: OnceLock<Box<dyn system::Training>>,
    /// Reads that are taken for replicas.
    pub(super) sampling: Sampling,
    /// How long they waited.
    pub(super) commit_times: CommitTimes,
    /// What commits ask of replicas.
    pub(super) replicas: OnceLock<crate::session::ReplicasAsked>,
    /// What statements and sessions may take up; the machine's, unless it was said before the first of them.
    resources: OnceLock<ResourceLimits>,
    /// Where copies are made that clients ask for; without, wherever they say.
    pub(super) copies: OnceLock<std::path::PathBuf>,
    /// Runs what blocks its thread for long.
    blocking: OnceLock<Blocking>,
    /// Lets other work of the thread go first.
    yielding: OnceLock<Yielding>,
    /// Does what cannot stop in between.
    pub(super) workers: Workers,
    /// Of a replica: the rows of its catalog, and up to where. Held while it is replaced.
    pub(super) followed: Mutex<FollowedCatalog>,
    /// Of a replica: the catalogs before the newest one, oldest first, from the one on that snapshots show.
    pub(super) earlier: Mutex<Vec<Arc<Catalog>>>,
}

/// Calls what it is given, which blocks the thread: a runtime has its other work done elsewhere meanwhile.
pub type Blocking = fn(&mut dyn FnMut());

/// Makes a future that is ready once other work of its thread was done, sockets that are ready among it.
pub type Yielding = fn() -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// A session as others see it.
#[derive(Clone)]
pub struct Connected {
    /// Its secret, which a cancel request must show.
    pub secret: u32,
    /// Who it is.
    pub user: Arc<str>,
    /// What its application called itself when it connected.
    pub application: Arc<str>,
    /// Where its client is; `None` when it is in this process.
    pub address: Option<SocketAddr>,
    /// When it connected, microseconds since 2000-01-01.
    pub since: i64,
    /// Cancels what it runs.
    pub cancel: CancelHandle,
    /// What it does.
    pub activity: Arc<Activity>,
}

/// Why a database could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The engine could not open the directory.
    Engine(EngineError),
    /// The catalog in it could not be read.
    Catalog(SqlError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(EngineError::Levels(error)) if error.remedy() == Remedy::RestoreData => write!(
                f,
                "{error}: restore a backup (collie restore), or have the directory filled by a replica's primary; what is \
                 whole opens read-only, and the tables that are not are named, with --set \
                 wal.recovery_mode=skip_any_corrupted_records"
            ),
            Self::Engine(error) => error.fmt(f),
            Self::Catalog(error) => write!(f, "the catalog cannot be read: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<EngineError> for OpenError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<SqlError> for OpenError {
    fn from(error: SqlError) -> Self {
        Self::Catalog(error)
    }
}

impl Database {
    /// Opens or makes the database in `dir`, and reads its catalog. `defaults` are settings every session starts with. Opened
    /// read-only (`collie_engine::Db::is_read_only`), as asked for or because it is what is left of a damaged log, every write is
    /// refused with 25006.
    ///
    /// # Errors
    /// When the directory is foreign, in use, damaged or of another format, or the catalog cannot be read.
    pub fn open(
        dir: &Path,
        options: collie_engine::Options,
        env: Env,
        defaults: Settings,
        progress: &mut dyn FnMut(&OpenProgress),
    ) -> Result<(Arc<Self>, OpenReport), OpenError> {
        let (db, mut report) = Db::open(dir, options, env.clone(), progress)?;
        let (database, mut damaged) = Self::over_whole(db, env, defaults, &report.damaged)?;
        report.notices.append(&mut damaged);
        Ok((database, report))
    }

    /// Makes the database of an engine that is open, and reads its catalog. Also returns a line for each relation that could not be
    /// read. Over a replica the catalog follows what is replayed (`following.rs`).
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub fn over(db: Db, env: Env, defaults: Settings) -> Result<(Arc<Self>, Vec<String>), OpenError> {
        Self::over_whole(db, env, defaults, &[])
    }

    /// [`Database::over`], of an engine in which these families are not whole.
    fn over_whole(
        db: Db,
        env: Env,
        defaults: Settings,
        not_whole: &[CfId],
    ) -> Result<(Arc<Self>, Vec<String>), OpenError> {
        let mut session = db.session()?;
        session.begin(Isolation::ReadCommitted, false)?;
        session.begin_statement(StatementKind::Write)?;
        let mut loaded = store::load(&db, &session)?;
        if db.is_read_only() {
            // Its row may be among what is lost; relations in it would have no name.
            loaded.catalog.schemas.entry(PUBLIC).or_insert_with(|| store::public_schema().into());
        } else if !loaded.catalog.schemas.contains_key(&PUBLIC) {
            store::bootstrap(&db, &mut session)?;
            session.end_statement();
            session.begin_statement(StatementKind::Write)?;
            loaded = store::load(&db, &session)?;
        }
        if !db.is_read_only() {
            store::name_families(&db, &mut session, &loaded.catalog)?;
        }
        session.end_statement();
        session.commit(true)?.block()?;
        let mut catalog = loaded.catalog;
        loaded.damaged.extend(damaged::leave_out(&mut catalog, not_whole));
        if !db.is_replica() {
            // There they come and go with the log.
            drop_families_without_owner(&db, &catalog)?;
        }
        system::install(&mut catalog);
        catalog.epoch = 1;
        let database = Self {
            db,
            timer: Timer::new(&env),
            resources: OnceLock::new(),
            copies: OnceLock::new(),
            blocking: OnceLock::new(),
            yielding: OnceLock::new(),
            workers: Workers::new(std::thread::available_parallelism().map_or(2, std::num::NonZero::get)),
            replication: OnceLock::new(),
            problem: OnceLock::new(),
            promote: OnceLock::new(),
            node_state: OnceLock::new(),
            training: OnceLock::new(),
            sampling: Sampling::default(),
            commit_times: CommitTimes::default(),
            replicas: OnceLock::new(),
            env,
            catalog: ArcSwap::from_pointee(catalog),
            row_ids: RowIds::default(),
            plans: PlanCache::default(),
            questions: Questions::default(),
            defaults,
            epoch: AtomicU64::new(2),
            next_oid: AtomicU32::new(loaded.next_oid),
            running: AtomicUsize::new(0),
            latencies: SharedLatencies::default(),
            connected: Mutex::default(),
            next_pid: AtomicU32::new(1),
            followed: Mutex::default(),
            earlier: Mutex::default(),
        };
        let database = Arc::new(database);
        if database.db.is_replica() {
            database.follow()?;
        }
        Ok((database, loaded.damaged))
    }

    /// Opens a session for `user`, which calls itself `application` and is at `address`, if not in this process.
    ///
    /// # Errors
    /// 53300 when the engine has no room for another session.
    pub fn connect(self: &Arc<Self>, user: &str, application: &str, address: Option<SocketAddr>) -> Result<Session> {
        let (engine, connected) = self.make_session(user, application, address)?;
        let pid = self.next_pid();
        self.connected.lock().insert(pid, connected.clone());
        Ok(Session::new(self.clone(), engine, pid, connected, self.defaults.clone()))
    }

    /// Opens a session of the server's own, with the settings that there are by default: others do not see it.
    pub(super) fn connect_unlisted(self: &Arc<Self>, application: &str) -> Result<Session> {
        let (engine, connected) = self.make_session("collie", application, None)?;
        Ok(Session::new(self.clone(), engine, self.next_pid(), connected, Settings::default()))
    }

    fn next_pid(&self) -> u32 {
        self.next_pid.fetch_add(1, Ordering::Relaxed).max(1)
    }

    fn make_session(
        &self,
        user: &str,
        application: &str,
        address: Option<SocketAddr>,
    ) -> Result<(collie_engine::Session, Connected)> {
        let engine = self.db.session()?;
        let mut secret = [0; 4];
        self.env.random.fill(&mut secret);
        let connected = Connected {
            secret: u32::from_le_bytes(secret),
            user: user.into(),
            application: application.into(),
            address,
            since: self.now(),
            cancel: engine.cancel_handle(),
            activity: Activity::new(application),
        };
        Ok((engine, connected))
    }

    /// Cancels what session `pid` runs, if `secret` is its secret. Nothing tells the caller whether it was.
    pub fn cancel(&self, pid: u32, secret: u32) {
        let connected = self.connected.lock();
        let Some(session) = connected.get(&pid) else { return };
        // One comparison of whole words: its time does not depend on how many bits agree.
        if session.secret == secret {
            session.cancel.cancel();
        }
    }

    /// Cancels what session `pid` runs; returns whether there is such a session.
    pub(super) fn cancel_backend(&self, pid: u32) -> bool {
        let connected = self.connected.lock();
        let found = connected.get(&pid);
        found.inspect(|session| session.cancel.cancel()).is_some()
    }

    /// Ends session `pid`; returns whether there is such a session.
    pub(super) fn terminate_backend(&self, pid: u32) -> bool {
        let Some(session) = self.connected.lock().get(&pid).cloned() else { return false };
        // In this order: who sees the cancel sees why it came.
        session.activity.tell_to_end();
        session.cancel.cancel();
        true
    }

    /// Returns the process ids of the sessions that session `pid` waits for.
    pub(super) fn blocking_pids(&self, pid: u32) -> Vec<u32> {
        let Some(slot) = self.connected.lock().get(&pid).map(|session| session.cancel.slot()) else {
            return Vec::new();
        };
        let slots = self.db.slots_in_the_way(slot);
        if slots.is_empty() {
            return Vec::new();
        }
        let connected = self.connected.lock();
        let mut pids: Vec<u32> = connected
            .iter()
            .filter(|(_, session)| slots.contains(&session.cancel.slot()))
            .map(|(pid, _)| *pid)
            .collect();
        pids.sort_unstable();
        pids
    }

    /// Limits what statements and sessions may take up, before the first of them; later calls change nothing.
    pub fn limit_resources(&self, asked: ResourcesAsked) {
        let _limited_already = self.resources.set(ResourceLimits::new(asked, &*self.env.files));
    }

    /// Returns what statements and sessions may take up.
    pub fn resources(&self) -> &ResourceLimits {
        self.resources.get_or_init(|| ResourceLimits::new(ResourcesAsked::default(), &*self.env.files))
    }

    /// Says how to run what blocks its thread (`pg_sleep`); without it that is just called. The first call counts.
    pub fn block_by(&self, blocking: Blocking) {
        let _ = self.blocking.set(blocking);
    }

    /// Runs what blocks its thread.
    pub(super) fn block(&self, work: &mut dyn FnMut()) {
        match self.blocking.get() {
            Some(blocking) => blocking(work),
            None => work(),
        }
    }

    /// Says how long work lets others of its thread go first; without it they are woken in turn. The first call counts.
    pub fn yield_by(&self, yielding: Yielding) {
        let _ = self.yielding.set(yielding);
    }

    /// Lets other sessions of this thread go first: for work that has taken about a millisecond.
    pub(super) async fn give_way(&self) {
        match self.yielding.get() {
            Some(yielding) => yielding().await,
            None => pending_once().await,
        }
    }

    /// Ends every session, and cancels what it runs: the server is shutting down, or leads no more.
    pub fn terminate_all(&self) {
        let pids: Vec<u32> = self.connected.lock().keys().copied().collect();
        for pid in pids {
            self.terminate_backend(pid);
        }
    }

    /// Ends the sessions in these slots ([`CancelHandle::slot`](collie_engine::CancelHandle::slot)), which their clients are told (57P01).
    pub fn terminate_slots(&self, slots: &[usize]) {
        let connected = self.connected.lock();
        let pids: Vec<u32> = connected
            .iter()
            .filter(|(_, session)| slots.contains(&session.cancel.slot()))
            .map(|(pid, _)| *pid)
            .collect();
        drop(connected);
        for pid in pids {
            self.terminate_backend(pid);
        }
    }

    /// Returns how many sessions are running a statement.
    pub fn running_sessions(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Returns who is connected, by process id.
    pub fn connected(&self) -> Vec<(u32, Connected)> {
        let mut all: Vec<_> = self.connected.lock().iter().map(|(pid, session)| (*pid, session.clone())).collect();
        all.sort_by_key(|(pid, _)| *pid);
        all
    }

    pub(super) fn disconnect(&self, pid: u32) {
        self.connected.lock().remove(&pid);
    }

    /// Returns how many messages of clients were answered since the database was opened, and how long that took. One of the extended
    /// protocol counts from its last Execute to its answer.
    pub fn answered(&self) -> Latencies {
        self.latencies.copy()
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Db {
        &self.db
    }

    /// Returns the newest committed catalog that every snapshot shows which is taken from now on.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.shown_catalog()
    }

    /// Returns the time, in microseconds since 2000-01-01 00:00 UTC.
    pub fn now(&self) -> i64 {
        /// From 1970 to 2000, in microseconds.
        const EPOCH_DIFFERENCE: i64 = 946_684_800_000_000;
        self.env.clock.wall_us() - EPOCH_DIFFERENCE
    }

    /// Returns an epoch no catalog has had (D2).
    pub(super) fn new_epoch(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::Relaxed)
    }

    /// Gives out an OID. Called under the catalog lock only, which keeps D3 simple.
    pub(super) fn new_oid(&self) -> u32 {
        self.next_oid.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the first OID that was never given out: what a transaction that took OIDs writes down (D3).
    pub(super) fn next_oid(&self) -> u32 {
        self.next_oid.load(Ordering::Relaxed)
    }

    /// Flushes and closes the database. Sessions that are still open fail from then on.
    ///
    /// # Errors
    /// 58030 when the log cannot be flushed.
    pub fn close(&self) -> Result<()> {
        Ok(self.db.close()?)
    }
}

/// Pending once, woken at once.
async fn pending_once() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Frees families that neither a definition nor the engine names: left by transactions that never committed.
fn drop_families_without_owner(db: &Db, catalog: &Catalog) -> Result<(), EngineError> {
    let mut owned: Vec<CfId> = vec![CfId::CATALOG];
    owned.extend(db.named_families()?);
    for relation in catalog.relations.values() {
        owned.push(relation.family());
        owned.extend(relation.indexes.iter().map(|index| index.cf));
    }
    for cf in db.families() {
        if !owned.contains(&cf) {
            db.free_family(cf);
        }
    }
    Ok(())
}

/// The error for a database that is not there.
pub fn no_database(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"))
}
