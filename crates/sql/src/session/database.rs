//! `Database`: one open database, shared by its sessions: engine, newest catalog, plan cache, connected sessions.
//!
//! It is not a session, and it runs no statement.
//!
//! # Invariants
//! - D1. `catalog` is replaced only by the transaction that holds the catalog lock, once every later snapshot of any
//!   kind shows its commit, and before its locks end: a session that plans with a catalog finds the rows that its
//!   definitions name ([`Publication`](super::publication::Publication)).
//! - D2. No two catalogs have the same epoch, private ones of open transactions included.
//! - D3. An OID in a committed definition is never given out again: the transaction that uses it also writes
//!   `next_oid`.

use std::{
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
use collie_base::{CfId, EPOCH_2000_US, Latencies, Map, Remedy, SharedLatencies};
use collie_engine::{CancelHandle, Db, EngineError, Isolation, OpenProgress, OpenReport, StatementKind};
use collie_env::Env;
use parking_lot::Mutex;
use thiserror::Error;

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

/// The name of the one database.
pub const DATABASE: &str = "collie";

/// One open database.
pub struct Database {
    pub(super) db: Db,
    pub(super) env: Env,
    pub(super) catalog: ArcSwap<Catalog>,
    pub(super) row_ids: RowIds,
    pub(super) plans: PlanCache,
    pub(super) questions: Questions,
    /// Settings that every session starts with.
    defaults: Settings,
    epoch: AtomicU64,
    pub(super) next_oid: AtomicU32,
    /// Sessions that are running a statement now.
    pub(super) running: AtomicUsize,
    /// Latencies of the answers to clients.
    pub(super) latencies: SharedLatencies,
    connected: Mutex<Map<u32, Connected>>,
    next_pid: AtomicU32,
    /// Enforces time limits.
    pub(super) timer: Timer,
    /// The replicas of this database.
    pub(super) replication: OnceLock<Box<dyn crate::session::Replication>>,
    /// The problem of this replica's copy of its primary's rows.
    pub(super) problem: OnceLock<String>,
    pub(super) promote: OnceLock<crate::session::Promote>,
    /// The node's own state.
    pub(super) node_state: OnceLock<Box<dyn crate::session::NodeState>>,
    /// Bounds of the collection of samples, and its results.
    pub(super) training: OnceLock<Box<dyn system::Training>>,
    /// Reads that are sampled for replicas.
    pub(super) sampling: Sampling,
    /// Wait times of commits.
    pub(super) commit_times: CommitTimes,
    /// The replicas that a commit waits for.
    pub(super) replicas: OnceLock<crate::session::ReplicasAsked>,
    /// Limits on the resources of statements and sessions. They follow from the machine, unless they are set before the
    /// first use.
    resources: OnceLock<ResourceLimits>,
    /// The directory for copies that clients ask for; without it, clients name any directory.
    pub(super) copies: OnceLock<std::path::PathBuf>,
    /// Runs work that blocks its thread for long.
    blocking: OnceLock<Blocking>,
    /// Lets other work of the thread run first.
    yielding: OnceLock<Yielding>,
    /// Runs work that cannot stop in between.
    pub(super) workers: Workers,
    /// On a replica: the rows of its catalog, and up to which position. Locked while the catalog is replaced.
    pub(super) followed: Mutex<FollowedCatalog>,
    /// On a replica: the catalogs before the newest one, oldest first, starting with the newest one that snapshots
    /// show.
    pub(super) earlier: Mutex<Vec<Arc<Catalog>>>,
}

/// A function that calls its argument, which blocks the thread; a runtime moves its other work to other threads
/// meanwhile.
pub type Blocking = fn(&mut dyn FnMut());

/// A function that makes a future, which is ready once other work of its thread was done, including sockets that are
/// ready.
pub type Yielding = fn() -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// A session as other sessions see it.
#[derive(Clone)]
pub struct Connected {
    /// The session's secret, which a cancel request must show.
    pub secret: u32,
    /// The name of the user.
    pub user: Arc<str>,
    /// The name that the application gave when it connected.
    pub application: Arc<str>,
    /// The address of the client; `None` if it is in this process.
    pub address: Option<SocketAddr>,
    /// The time of the connection, in microseconds since 2000-01-01.
    pub since: i64,
    /// Cancels the running statement.
    pub cancel: CancelHandle,
    /// The session's current activity.
    pub activity: Arc<Activity>,
}

/// The reason why a database could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The engine could not open the directory.
    #[error("{}{}", .0, other_ways(.0))]
    Engine(EngineError),
    /// The catalog in it could not be read.
    #[error("the catalog cannot be read: {0}")]
    Catalog(SqlError),
}

/// Returns the other ways on from damaged levels, to be appended to the text of the error.
fn other_ways(error: &EngineError) -> &'static str {
    match error {
        EngineError::Levels(error) if error.remedy() == Remedy::RestoreData => {
            ": restore a backup (collie restore), or have the directory filled by a replica's primary; what is whole opens \
             read-only, and the tables that are not are named, with --set \
             wal.recovery_mode=skip_any_corrupted_records"
        }
        _ => "",
    }
}

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
    /// Opens or creates the database in `dir`, and reads its catalog. `defaults` are settings that every session starts
    /// with. If it is opened read-only (`collie_engine::Db::is_read_only`), on request or because it is the rest of a
    /// damaged log, every write is refused with 25006.
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

    /// Makes the database of an open engine, and reads its catalog. Also returns a line for each relation that could
    /// not be read. On a replica the catalog follows the replay (`following.rs`).
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub fn over(db: Db, env: Env, defaults: Settings) -> Result<(Arc<Self>, Vec<String>), OpenError> {
        Self::over_whole(db, env, defaults, &[])
    }

    /// Does the work of [`Database::over`] for an engine in which these families are damaged.
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
            // The row of the schema may be lost, and relations in it would have no name.
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
            // On a replica, the log creates and drops families.
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

    /// Opens a session for `user`, whose application calls itself `application`. `address` is the client's, if it is
    /// not in this process.
    ///
    /// # Errors
    /// 53300 when the engine has no room for another session.
    pub fn connect(self: &Arc<Self>, user: &str, application: &str, address: Option<SocketAddr>) -> Result<Session> {
        let (engine, connected) = self.make_session(user, application, address)?;
        let pid = self.next_pid();
        self.connected.lock().insert(pid, connected.clone());
        Ok(Session::new(self.clone(), engine, pid, connected, self.defaults.clone()))
    }

    /// Opens an internal session of the server with the default settings. Other sessions do not see it.
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

    /// Cancels the statement of session `pid`, if `secret` is its secret. The caller does not learn whether it was.
    pub fn cancel(&self, pid: u32, secret: u32) {
        let connected = self.connected.lock();
        let Some(session) = connected.get(&pid) else { return };
        // One comparison of whole words: its time does not depend on the number of equal bits.
        if session.secret == secret {
            session.cancel.cancel();
        }
    }

    /// Cancels the statement of session `pid`; returns whether there is such a session.
    pub(super) fn cancel_backend(&self, pid: u32) -> bool {
        let connected = self.connected.lock();
        let found = connected.get(&pid);
        found.inspect(|session| session.cancel.cancel()).is_some()
    }

    /// Ends session `pid`; returns whether there is such a session.
    pub(super) fn terminate_backend(&self, pid: u32) -> bool {
        let Some(session) = self.connected.lock().get(&pid).cloned() else { return false };
        // In this order, so that a session that sees the cancel also sees the order to end.
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

    /// Limits the resources of statements and sessions. Must be called before their first use; later calls have no
    /// effect.
    pub fn limit_resources(&self, asked: ResourcesAsked) {
        let _limited_already = self.resources.set(ResourceLimits::new(asked, &*self.env.files));
    }

    /// Returns the limits on the resources of statements and sessions.
    pub fn resources(&self) -> &ResourceLimits {
        self.resources.get_or_init(|| ResourceLimits::new(ResourcesAsked::default(), &*self.env.files))
    }

    /// Sets how to run work that blocks its thread (`pg_sleep`); without it the work is just called. Only the first
    /// call counts.
    pub fn block_by(&self, blocking: Blocking) {
        let _ = self.blocking.set(blocking);
    }

    /// Runs work that blocks its thread.
    pub(super) fn block(&self, work: &mut dyn FnMut()) {
        match self.blocking.get() {
            Some(blocking) => blocking(work),
            None => work(),
        }
    }

    /// Sets how long work lets other work of its thread run first; without it, the task is pending once and wakes
    /// itself. Only the first call counts.
    pub fn yield_by(&self, yielding: Yielding) {
        let _ = self.yielding.set(yielding);
    }

    /// Lets other sessions of this thread run first, for work that has taken about a millisecond.
    pub(super) async fn give_way(&self) {
        match self.yielding.get() {
            Some(yielding) => yielding().await,
            None => pending_once().await,
        }
    }

    /// Ends every session and cancels its statement: the server is shutting down, or is no longer the primary.
    pub fn terminate_all(&self) {
        let pids: Vec<u32> = self.connected.lock().keys().copied().collect();
        for pid in pids {
            self.terminate_backend(pid);
        }
    }

    /// Ends the sessions in these slots ([`CancelHandle::slot`](collie_engine::CancelHandle::slot)); their clients get
    /// 57P01.
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

    /// Returns the number of sessions that are running a statement.
    pub fn running_sessions(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Returns the connected sessions, by process id.
    pub fn connected(&self) -> Vec<(u32, Connected)> {
        let mut all: Vec<_> = self.connected.lock().iter().map(|(pid, session)| (*pid, session.clone())).collect();
        all.sort_by_key(|(pid, _)| *pid);
        all
    }

    pub(super) fn disconnect(&self, pid: u32) {
        self.connected.lock().remove(&pid);
    }

    /// Returns the latencies of answers to clients since the database was opened. A pipeline of the extended protocol
    /// counts once, from its last Parse or Bind, or from its first Execute if it has neither.
    pub fn answered(&self) -> Latencies {
        self.latencies.copy()
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Db {
        &self.db
    }

    /// Returns the newest committed catalog that every snapshot taken from now on shows.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.shown_catalog()
    }

    /// Returns the time, in microseconds since 2000-01-01 00:00 UTC.
    pub fn now(&self) -> i64 {
        self.env.clock.wall_us() - EPOCH_2000_US
    }

    /// Returns an epoch that no catalog has had (D2).
    pub(super) fn new_epoch(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns a new OID. Called under the catalog lock only, which keeps D3 simple.
    pub(super) fn new_oid(&self) -> u32 {
        self.next_oid.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the first OID that was never given out. A transaction that took OIDs writes it (D3).
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

/// Is pending once, and wakes itself at once.
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

/// Frees families that neither a definition nor the engine names: transactions that never committed left them.
fn drop_families_without_owner(db: &Db, catalog: &Catalog) -> Result<(), EngineError> {
    let mut owned: Vec<CfId> = vec![CfId::CATALOG];
    owned.extend(db.named_families()?.into_iter().map(|(_, cf)| cf));
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

/// Returns the error for a database that does not exist.
pub fn no_database(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"))
}
