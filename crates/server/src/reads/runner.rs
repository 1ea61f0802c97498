//! [`ReadRunner`]: the thread of a replica that runs the sampled reads of its primary again.
//!
//! # Invariants
//! - N1. There is one thread, which yields to others, and it runs one read at a time: it uses at most one core, and of
//!   that only what the budget gives. Nothing waits for it (TRAIN-4).
//! - N2. A read runs once it is due and the read horizon here covers its snapshot; a second later it is dropped.
//! - N3. It runs in a read-only session, for at most [`STATEMENT_MS`], with at most [`ROW_BYTES_MAX`] of rows in
//!   memory; its result rows are counted and dropped.
//! - N4. Once [`ReadRunner::end`] has returned, nothing runs, and nothing will: a promotion continues only then.

use crate::log_lines;
use std::{
    fmt,
    future::pending,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use collie_base::Lsn;
use collie_engine::CancelHandle;
use collie_env::Env;
use collie_obs::{Source, work_for};
use collie_replica::reads::{DueRead, ReadInbox};
use collie_sql::{
    catalog::system::ReadsRow,
    session::{Database, ReadSession, Rerun},
};
use collie_train::policy::ElasticBudget;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    select,
    sync::watch,
    time::{sleep, timeout},
};

use super::slices::{SLICE_US, Slices};

/// The time limit of a read, including the waits for slices.
const STATEMENT_MS: u64 = 5_000;

/// The memory limit for the rows of a read.
const ROW_BYTES_MAX: u64 = 64 << 20;

/// The time between two attempts to open a session.
const SESSION_EVERY: Duration = Duration::from_secs(1);

/// The time between two cancels of a running read until it ends: a cancel that arrives before the read has begun has no
/// effect.
const CANCEL_EVERY: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
struct Counts {
    run: AtomicU64,
    rows: AtomicU64,
    primary_rows: AtomicU64,
    unfit: AtomicU64,
    failed: AtomicU64,
}

/// See the module's documentation.
pub(crate) struct ReadRunner {
    env: Env,
    inbox: Arc<ReadInbox>,
    /// The source of its processor time.
    elastic: OnceLock<Arc<ElasticBudget>>,
    counts: Counts,
    /// True once no more reads may run.
    ending: watch::Sender<bool>,
    /// Whether the thread exists.
    running: watch::Sender<bool>,
    /// Cancels the running read.
    cancel: Mutex<Option<CancelHandle>>,
}

impl fmt::Debug for ReadRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadRunner").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl ReadRunner {
    /// Makes a runner; it runs nothing yet, but keeps incoming reads for a while.
    pub(crate) fn new(env: &Env) -> Arc<Self> {
        Arc::new(Self {
            env: env.clone(),
            inbox: Arc::default(),
            elastic: OnceLock::new(),
            counts: Counts::default(),
            ending: watch::Sender::new(false),
            running: watch::Sender::new(false),
            cancel: Mutex::default(),
        })
    }

    /// Returns the queue of incoming reads.
    pub(crate) fn inbox(&self) -> &Arc<ReadInbox> {
        &self.inbox
    }

    /// Begins to run reads on `database`, on its own thread, in the time that `elastic` gives. If the thread cannot be
    /// started, reads are dropped. Must be called at most once.
    pub(crate) fn start(self: &Arc<Self>, database: &Arc<Database>, elastic: Arc<ElasticBudget>, runtime: &Handle) {
        let elastic = self.elastic.get_or_init(|| elastic).clone();
        // Set before the thread checks `ending`: `end` waits until it is false again.
        self.running.send_replace(true);
        let (this, database, runtime) = (self.clone(), database.clone(), runtime.clone());
        let thread = std::thread::Builder::new().name("collie-reads".to_owned()).spawn(move || {
            let _running = Running(&this);
            collie_env::give_way();
            let _scope = work_for(Source::ReplayedRead);
            runtime.block_on(this.run(database, &elastic));
        });
        if let Err(error) = thread {
            log_lines::warn(&format_args!("sampled reads are not run: {error}"));
            drop(Running(self));
        }
    }

    /// Runs nothing from now on: cancels the running read, and waits for its end (N4).
    pub(crate) async fn end(&self) {
        self.ending.send_replace(true);
        self.inbox.close();
        let mut running = self.running.subscribe();
        loop {
            self.cancel.lock().iter().for_each(CancelHandle::cancel);
            let ended = running.wait_for(|running| !*running);
            if timeout(CANCEL_EVERY, ended).await.is_ok() {
                return;
            }
        }
    }

    /// Runs reads until `ending` is true.
    async fn run(&self, database: Arc<Database>, elastic: &ElasticBudget) {
        let mut ending = self.ending.subscribe();
        let ended = async {
            // The guard is dropped at once: otherwise it would be held as long as reads run.
            let _guarded = ending.wait_for(|ending| *ending).await.is_ok();
        };
        select! {
            () = ended => {}
            () = self.run_reads(&database, elastic) => {}
        }
        *self.cancel.lock() = None;
    }

    async fn run_reads(&self, database: &Arc<Database>, elastic: &ElasticBudget) {
        let mut session = loop {
            match database.connect_for_reads(STATEMENT_MS, ROW_BYTES_MAX) {
                Ok(session) => break session,
                Err(_all_taken) => sleep(SESSION_EVERY).await,
            }
        };
        *self.cancel.lock() = Some(session.cancel_handle());
        loop {
            let read = self.inbox.next(&self.env).await;
            self.run_read((database, elastic), &mut session, &read).await;
        }
    }

    async fn run_read(
        &self,
        (database, elastic): (&Database, &ElasticBudget),
        session: &mut ReadSession,
        read: &DueRead,
    ) {
        let until_us = read.late_at_us();
        let left_us = until_us.saturating_sub(self.env.clock.now_ns() / 1000);
        let shown = timeout(Duration::from_micros(left_us), shown(database, read.snapshot)).await;
        let slices = match shown {
            Ok(()) => Slices::first(elastic, &self.env, session.cancel_handle(), until_us).await,
            Err(_late) => None,
        };
        let Some(mut slices) = slices else {
            self.inbox.became_late();
            return;
        };
        let rerun = session.run(&read.text, &read.parameters, &mut slices).await;
        slices.pay();
        let count = |count: &AtomicU64, by: u64| _ = count.fetch_add(by, Relaxed);
        let Counts { run, rows, primary_rows, unfit, failed } = &self.counts;
        match rerun {
            Rerun::Ran { rows: found } => {
                count(rows, found);
                count(primary_rows, read.rows.into());
                count(run, 1);
            }
            Rerun::Unfit => count(unfit, 1),
            Rerun::Failed(_) => count(failed, 1),
        }
    }

    /// Returns the number of received reads, and the mean time of running one, in us; before any has run, the time of a
    /// slice.
    pub(crate) fn offered(&self) -> (u64, f64) {
        let spent_us = self.elastic.get().map_or(0, |elastic| elastic.spent_us());
        let Counts { run, unfit, failed, .. } = &self.counts;
        let paid: u64 = [run, unfit, failed].iter().map(|count| count.load(Relaxed)).sum();
        let each_us = if paid > 0 { spent_us as f64 / paid as f64 } else { SLICE_US as f64 };
        (self.inbox.stat().came, each_us)
    }

    /// Returns the outcomes of the reads.
    pub(crate) fn row(&self) -> ReadsRow {
        let (came, load) = (self.inbox.stat(), |count: &AtomicU64| count.load(Relaxed));
        let Counts { run, rows, primary_rows, unfit, failed } = &self.counts;
        ReadsRow {
            side: "replica",
            taken: came.came,
            shipped: None,
            run: Some(load(run)),
            rows: load(rows),
            primary_rows: Some(load(primary_rows)),
            spent_us: Some(self.elastic.get().map_or(0, |elastic| elastic.spent_us())),
            late: came.late,
            full: came.full,
            unfit: load(unfit),
            unknown: Some(came.unknown),
            failed: Some(load(failed)),
        }
    }
}

/// Marks the thread as running while it exists, however it ends.
struct Running<'a>(&'a ReadRunner);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.inbox.close();
        self.0.running.send_replace(false);
    }
}

/// Waits until new snapshots show every commit below `lsn`; forever if that never happens.
async fn shown(database: &Database, lsn: Lsn) {
    if let Some(wait) = database.engine().wait_shown(lsn)
        && wait.await.is_err()
    {
        pending().await
    }
}
