//! `LiveThesis`: a replica in this process that replays as the thesis' system does (`thesis.rs`), while the primary is
//! being written to.
//!
//! # What always holds
//! - L1. It receives the same stream over the same protocol as any replica, and acknowledges at the same moments
//!   (`collie_replica::standby::follow`). Its primary notes the times of commits from the start (`collie-bench
//!   serve-with --note-commit-times`).
//! - L2. It keeps no log: the position that it reports as durable is only received, so no commit may wait for it.
//! - L3. The position that it reports as visible to its readers is the one below which everything is replayed (H4 of
//!   `thesis.rs`).
//! - L4. A deferred transaction is replayed further only with a later commit. The thesis' system sends a message for
//!   that when there are no commits; here a separate row on the primary is updated every [`BEAT`].
//! - L5. It is read by SQL sessions in this process, without a server. They are opened once all tables exist.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use collie_base::Lsn;
use collie_engine::{Db, DirectoryIdentity};
use collie_replica::identity::Identity;
use collie_replica::key::{KEY_FILE, KeyFile};
use collie_replica::packet::History;
use collie_replica::standby::{Ended, FollowOptions, Positions, Target, TargetError, connect, follow};
use collie_sql::session::{Database, settings::Settings};
use parking_lot::Mutex;
use postgres::NoTls;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::capacity::options;
use super::thesis::{Applied, Thesis};
use crate::servers::Server;
use crate::tpcc::OwnLines;
use crate::{Plan, Scratch};

/// Interval of the commits on the primary that carry the oldest transaction (L4); the horizon is at most this old.
const BEAT: Duration = Duration::from_millis(5);
/// Runs of records that may wait to be replayed; beyond that, the stream waits.
const QUEUE_RUNS: usize = 64;
/// The connection is dropped after a silence of this length.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Name of its replication slot.
const SLOT: &str = "thesis";

/// See the module's documentation.
pub(super) struct LiveThesis {
    plan: Plan,
    db: Db,
    applied: Applied,
    following: Arc<Following>,
    database: OnceLock<Arc<Database>>,
    stop: watch::Sender<bool>,
    stop_beats: Arc<AtomicBool>,
    /// `None` once it is stopped.
    runtime: Option<Runtime>,
    threads: Vec<JoinHandle<()>>,
    /// Dropped after the database in it.
    _scratch: Scratch,
}

/// Whole records as received.
struct Received {
    start: Lsn,
    prev_end: Lsn,
    records: Vec<u8>,
}

/// The target of the stream.
struct Following {
    identity: Identity,
    received: AtomicU64,
    applied: Applied,
    /// `None` ends the replaying thread.
    queue: SyncSender<Option<Received>>,
    queue_bytes: Arc<AtomicU64>,
    /// The failure that stopped the replica, if any.
    failed: Failed,
}

/// The first failure of several threads.
#[derive(Clone, Default)]
struct Failed(Arc<Mutex<Option<String>>>);

impl Failed {
    fn note(&self, what: impl FnOnce() -> String) {
        self.0.lock().get_or_insert_with(what);
    }

    fn ensure_none(&self) -> anyhow::Result<()> {
        self.0.lock().as_ref().map_or(Ok(()), |what| Err(anyhow::anyhow!("the replica by begin has stopped: {what}")))
    }
}

impl Target for Following {
    fn identity(&self) -> Identity {
        Identity { end: self.positions().received, ..self.identity.clone() }
    }

    fn positions(&self) -> Positions {
        // Applied is loaded first, so it is never above received.
        let applied = self.applied.position();
        let received = Lsn::new(self.received.load(Ordering::Acquire));
        Positions { received, durable: received, applied } // L2
    }

    fn tail(&self) -> Result<(u32, u32), TargetError> {
        Ok((0, 0))
    }

    fn receive(&self, start: Lsn, prev_end: Lsn, records: &[u8]) -> Result<Lsn, TargetError> {
        let bytes = u64::try_from(records.len()).unwrap_or(u64::MAX);
        let end = start.plus(bytes);
        self.queue_bytes.fetch_add(bytes, Ordering::Relaxed);
        // Stored before the records can be applied.
        self.received.store(end.get(), Ordering::Release);
        let sent = self.queue.send(Some(Received { start, prev_end, records: records.to_vec() }));
        sent.map(|()| end).map_err(|_| TargetError::Failed("nobody replays any more".to_owned()))
    }

    /// Ignored: on a primary without a quorum everything that it sends is durable and may be visible.
    fn set_show(&self, _show: Lsn) {}

    fn queue_bytes(&self) -> u64 {
        self.queue_bytes.load(Ordering::Relaxed)
    }
}

/// Replays the received runs until it gets `None`.
fn replay(mut thesis: Thesis, queue: &Receiver<Option<Received>>, queue_bytes: &AtomicU64, failed: &Failed) {
    while let Ok(Some(Received { start, prev_end, records })) = queue.recv() {
        if let Err(error) = thesis.take_run(start, prev_end, &records) {
            return failed.note(|| format!("{error:#}"));
        }
        queue_bytes.fetch_sub(u64::try_from(records.len()).unwrap_or(0), Ordering::Relaxed);
    }
}

/// Updates its own row on the primary every [`BEAT`] (L4).
fn beat(config: &postgres::Config, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut session = config.connect(NoTls)?;
    session.batch_execute("SET synchronous_commit = off")?;
    let update = session.prepare("UPDATE beat SET n = n + 1 WHERE id = 1")?;
    while !stop.load(Ordering::Relaxed) {
        session.execute(&update, &[])?;
        std::thread::sleep(BEAT);
    }
    Ok(())
}

impl LiveThesis {
    /// Follows `primary`, whose log must be complete from its beginning, into a new database.
    ///
    /// # Errors
    /// Those of the engine and the driver; the primary does not listen for replicas.
    pub(super) fn start(plan: &Plan, primary: &Server) -> anyhow::Result<Self> {
        let address = primary.replica_address()?;
        let data = primary.directory().join("data");
        let who = DirectoryIdentity::read(&data, &plan.env)?.context("the primary has no control file")?;
        let key = KeyFile::new(&plan.env, data.join(KEY_FILE));
        let histories = who.histories.iter().map(|of| History {
            term: of.term,
            id: of.history,
            start: of.start,
            prev_end: of.prev_end,
        });
        let identity = Identity {
            cluster: who.cluster_id,
            node: plan.env.random.u64(),
            term: who.term,
            histories: histories.collect(),
            end: Lsn::FIRST,
        };
        let scratch = Scratch::new(&plan.env, &plan.dir)?;
        let thesis = Thesis::open(&plan.env, &scratch.path().join("data"), &options())?;
        let (db, applied, failed) = (thesis.db().clone(), thesis.applied(), Failed::default());
        let (queue, queued) = sync_channel(QUEUE_RUNS);
        let queue_bytes = Arc::new(AtomicU64::new(0));
        let following = Arc::new(Following {
            identity,
            received: AtomicU64::new(Lsn::FIRST.get()),
            applied: applied.clone(),
            queue,
            queue_bytes: Arc::clone(&queue_bytes),
            failed: failed.clone(),
        });
        let replaying = std::thread::spawn({
            let failed = failed.clone();
            move || replay(thesis, &queued, &queue_bytes, &failed)
        });
        let (stop, stopping) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let (target, env) = (Arc::clone(&following), plan.env.clone());
        let _detached = runtime.spawn(async move {
            let connecting = || connect(&address, SLOT, &key);
            let how = FollowOptions { slot: SLOT.to_owned(), timeout: TIMEOUT, may_copy: false };
            let ended = follow(connecting, target, how, env, stopping, |_| ()).await;
            if ended != Ended::Stopped {
                failed.note(|| format!("{ended:?}"));
            }
        });
        let mut this = Self {
            plan: plan.clone(),
            db,
            applied,
            following,
            database: OnceLock::new(),
            stop,
            stop_beats: Arc::default(),
            runtime: Some(runtime),
            threads: vec![replaying],
            _scratch: scratch,
        };
        let config = primary.config();
        config.connect(NoTls)?.batch_execute(
            "CREATE TABLE beat (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO beat VALUES (1, 0)",
        )?;
        let (stop_beats, failed) = (Arc::clone(&this.stop_beats), this.following.failed.clone());
        this.threads.push(std::thread::spawn(move || {
            if let Err(error) = beat(&config, &stop_beats) {
                failed.note(|| format!("no beats: {error:#}"));
            }
        }));
        Ok(this)
    }

    /// Waits until every commit below `lsn` is replayed.
    ///
    /// # Errors
    /// The replica has stopped; it takes longer than `patience`.
    pub(super) fn until_applied(&self, lsn: u64, patience: Duration) -> anyhow::Result<()> {
        let begun = self.plan.now_ns();
        while self.applied.position().get() < lsn {
            self.following.failed.ensure_none()?;
            let waited = u128::from(self.plan.now_ns() - begun);
            anyhow::ensure!(waited < patience.as_nanos(), "the replica by begin is not even: {:?}", self.applied);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Fails if the replica has stopped.
    ///
    /// # Errors
    /// The reason why it has stopped.
    pub(super) fn ensure_alive(&self) -> anyhow::Result<()> {
        self.following.failed.ensure_none()
    }

    /// Returns the lines that open reading sessions. All tables must exist at the first call (L5).
    ///
    /// # Errors
    /// The catalog cannot be read; the replica has stopped.
    pub(super) fn lines(&self) -> anyhow::Result<OwnLines> {
        self.ensure_alive()?;
        if let Some(database) = self.database.get() {
            return Ok(OwnLines(Arc::clone(database)));
        }
        let (database, damaged) = Database::over(self.db.clone(), self.plan.env.clone(), Settings::default())?;
        anyhow::ensure!(damaged.is_empty(), "the catalog of the replica by begin is damaged: {}", damaged.join("; "));
        Ok(OwnLines(Arc::clone(self.database.get_or_init(|| database))))
    }
}

impl Drop for LiveThesis {
    fn drop(&mut self) {
        self.stop_beats.store(true, Ordering::Relaxed);
        self.stop.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(TIMEOUT);
        }
        // The thread is gone already if it failed.
        let _gone = self.following.queue.send(None);
        for thread in self.threads.drain(..) {
            let _panicked = thread.join();
        }
        // The database is removed with its files, so a failed write does not matter.
        let _closed = self.db.close();
    }
}
