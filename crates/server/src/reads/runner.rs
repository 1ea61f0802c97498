//! [`ReadRunner`]: the thread of a replica that runs the sampled reads of its primary again.
//!
//! # Invariants
//! - N1. One thread, which gives way to others, and one read at a time: at most one core, and of that what the budget gives. Nothing waits
//!   for it (TRAIN-4).
//! - N2. A read runs once its time has come and everything that it saw is shown here; a second later it is dropped.
//! - N3. It runs in a session that only reads, for at most [`STATEMENT_MS`], with at most [`ROW_BYTES_MAX`] of rows in memory; what it
//!   returns is counted and dropped.
//! - N4. Once [`ReadRunner::end`] has returned nothing runs, and nothing will: a promotion goes on only then.

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

/// How long a read may take, waiting for slices included.
const STATEMENT_MS: u64 = 5_000;

/// How much of rows a read may keep in memory.
const ROW_BYTES_MAX: u64 = 64 << 20;

/// How long it is waited for a session before the next try.
const SESSION_EVERY: Duration = Duration::from_secs(1);

/// How often a read that runs is cancelled until it ends: a cancel that comes before it has begun is forgotten.
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
    /// What gives it processor time.
    elastic: OnceLock<Arc<ElasticBudget>>,
    counts: Counts,
    /// True once nothing is to run any more.
    ending: watch::Sender<bool>,
    /// Whether the thread is there.
    running: watch::Sender<bool>,
    /// Cancels what runs.
    cancel: Mutex<Option<CancelHandle>>,
}

impl fmt::Debug for ReadRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadRunner").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl ReadRunner {
    /// Nothing runs yet, but what comes is kept for a while.
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

    /// Returns where reads come.
    pub(crate) fn inbox(&self) -> &Arc<ReadInbox> {
        &self.inbox
    }

    /// Begins to run reads on `database`, on a thread of its own, in the time that `elastic` gives. Where there can be no thread, reads are
    /// dropped. Only once.
    pub(crate) fn start(self: &Arc<Self>, database: &Arc<Database>, elastic: Arc<ElasticBudget>, runtime: &Handle) {
        let elastic = self.elastic.get_or_init(|| elastic).clone();
        // Before it is looked whether it is to end: whoever ends it waits for this.
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

    /// Runs nothing from now on: what runs is cancelled, and waited for (N4).
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

    /// Runs reads until it is to end.
    async fn run(&self, database: Arc<Database>, elastic: &ElasticBudget) {
        let mut ending = self.ending.subscribe();
        let ended = async {
            // What it guards is not kept: it would be held as long as reads run.
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

    /// Returns how many reads came, and what running one takes, in us: the mean of those that ran, a slice before there is one.
    pub(crate) fn offered(&self) -> (u64, f64) {
        let spent_us = self.elastic.get().map_or(0, |elastic| elastic.spent_us());
        let Counts { run, unfit, failed, .. } = &self.counts;
        let paid: u64 = [run, unfit, failed].iter().map(|count| count.load(Relaxed)).sum();
        let each_us = if paid > 0 { spent_us as f64 / paid as f64 } else { SLICE_US as f64 };
        (self.inbox.stat().came, each_us)
    }

    /// Returns what became of the reads.
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

/// The thread, as long as it is there, however it ends.
struct Running<'a>(&'a ReadRunner);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.inbox.close();
        self.0.running.send_replace(false);
    }
}

/// Waits until new snapshots show every commit below `lsn`; for ever where they never will.
async fn shown(database: &Database, lsn: Lsn) {
    if let Some(wait) = database.engine().wait_shown(lsn)
        && wait.await.is_err()
    {
        pending().await
    }
}
