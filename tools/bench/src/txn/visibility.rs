//! How much does it cost to decide whether a snapshot sees a version? For a version that carries its commit position,
//! and for one whose transaction must be looked up because it is not stamped yet; and, for scale, a read of a row by
//! its key.

use std::{convert::Infallible, time::Duration};

use collie_base::Lsn;
use collie_engine::{Isolation, StatementKind};
use collie_sync::atomic::AtomicU64;
use collie_txn::{Appended, CommitLog, CommitRecord, Ended, Resolution, Stamp, Txns};
use parking_lot::Mutex;

use super::{
    ENGINE, count_of, counted,
    embedded::{Embedded, key},
};
use crate::together::cost_ns;
use crate::{
    Plan, Section,
    measures::{RING, median},
    report::Row,
};

const THREADS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Versions that are checked in turn: enough that branches are not predicted from memory, few enough for the
/// first-level cache.
const VERSIONS: u64 = 1024;
/// Checks of each version in one burst.
const ROUNDS: u64 = 20;
/// Rows that are read by key.
const ROWS: u64 = 10_000;
const TIME: Duration = Duration::from_millis(100);

/// A log that discards its records, so that only transactions are measured.
struct Forgetting(Mutex<u64>);

impl CommitLog for Forgetting {
    type Writer = ();
    type Error = Infallible;

    fn append(&self, writer: &mut (), tag: u8, parts: &[&[u8]]) -> Result<Appended, Infallible> {
        self.append_commit(writer, tag, &parts.concat(), |_| ())
    }

    fn append_commit(
        &self,
        _writer: &mut (),
        _tag: u8,
        bytes: &[u8],
        publish: impl FnOnce(Lsn),
    ) -> Result<Appended, Infallible> {
        let mut end = self.0.lock();
        let start = Lsn::new(*end);
        publish(start);
        *end += u64::try_from(bytes.len()).unwrap_or(u64::MAX) + 2;
        Ok(Appended { start, end: Lsn::new(*end) })
    }

    fn boundary(&self) -> Lsn {
        Lsn::new(*self.0.lock())
    }

    fn durable(&self) -> Lsn {
        self.boundary()
    }
}

/// Versions of committed transactions: their words before and after stamping.
struct Versions {
    txns: std::sync::Arc<Txns<Forgetting>>,
    unstamped: Vec<AtomicU64>,
    stamped: Vec<AtomicU64>,
    /// Half of the versions are below it.
    snapshot: Lsn,
}

impl Versions {
    fn make() -> anyhow::Result<Self> {
        let txns = Txns::new(Forgetting(Mutex::new(4096)), collie_txn::Options::default());
        let mut session = txns.session()?;
        let (mut unstamped, mut stamped, mut csns) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..VERSIONS {
            let mut t = session.begin(Isolation::ReadCommitted, false);
            let xid = session.assign_xid(&mut t)?;
            let record = CommitRecord { tag: 1, bytes: b"a record" };
            let Ended::Committed { at, .. } = session.commit(t, &mut (), Some(record), &mut ())? else {
                anyhow::bail!("a transaction with a record commits");
            };
            unstamped.push(AtomicU64::new(Stamp::unfinished(xid).raw()));
            stamped.push(AtomicU64::new(Stamp::committed(at.start).raw()));
            csns.push(at.start);
        }
        Ok(Self { txns, unstamped, stamped, snapshot: csns[csns.len() / 2] })
    }

    /// Checks each word `ROUNDS` times; returns how many are visible.
    fn look(&self, words: &[AtomicU64]) -> u64 {
        let mut visible = 0;
        for _ in 0..ROUNDS {
            for word in words {
                let seen = matches!(self.txns.resolve(word), Resolution::Committed(csn) if csn < self.snapshot);
                visible += u64::from(seen);
            }
        }
        visible
    }

    /// Returns the cost of one check on `threads` threads in parallel.
    fn cost_ns(&self, plan: &Plan, words: &[AtomicU64], threads: usize) -> f64 {
        let work = || {
            std::hint::black_box(self.look(std::hint::black_box(words)));
        };
        cost_ns(plan, vec![&work; threads], VERSIONS * ROUNDS, TIME)
    }
}

/// Returns the cost of reading one row by its key on `threads` threads in parallel.
fn read_ns(plan: &Plan, db: &Embedded, threads: usize) -> anyhow::Result<f64> {
    let worker = || {
        let mut session = db.db.session()?;
        session.begin(Isolation::ReadCommitted, true)?;
        session.begin_statement(StatementKind::ReadOnly)?;
        let mut number: u64 = 1;
        Ok(move || {
            for _ in 0..VERSIONS {
                // Lehmer's generator: rows in random order.
                number = number.wrapping_mul(0xda94_2042_e4dd_58b5);
                let read = session.get_with(&db.family, &key((number >> 33) % ROWS), |value| value.len());
                assert!(matches!(read, Ok(Some(_))), "every row is there");
            }
        })
    };
    let workers = (0..threads).map(|_| worker()).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(cost_ns(plan, workers, VERSIONS, TIME))
}

/// Measures both on many threads.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "visibility",
        "what does it cost to find out whether a snapshot sees a version? (processor time; the row by its key for scale)",
    );
    let versions = Versions::make()?;
    let visible = (versions.look(&versions.stamped), versions.look(&versions.unstamped));
    anyhow::ensure!(visible == (VERSIONS * ROUNDS / 2, VERSIONS * ROUNDS / 2), "half of them are visible: {visible:?}");
    let db = Embedded::in_memory()?;
    db.fill(ROWS)?;
    for threads in THREADS {
        let (mut stamped, mut unstamped, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..plan.runs() {
            plan.say(&format!("visibility: {}, run {}", counted(threads, "thread"), run + 1));
            stamped.push(versions.cost_ns(plan, &versions.stamped, threads));
            unstamped.push(versions.cost_ns(plan, &versions.unstamped, threads));
            reads.push(read_ns(plan, &db, threads)?);
        }
        let row = Row::new(ENGINE, counted(threads, "thread"), "memory", RING)
            .at(count_of(threads))
            .runs("stamped_ns", &stamped)
            .runs("unstamped_ns", &unstamped)
            .runs("read_ns", &reads);
        let (stamped, unstamped) = (median(&stamped), median(&unstamped));
        section.rows.push(if threads == 1 {
            row.target("stamped <= 2 ns", stamped <= 2.0).target("unstamped <= 10 ns", unstamped <= 10.0)
        } else {
            row
        });
    }
    section.notes.push(format!(
        "{} of {VERSIONS} look-ups met a transaction that the ring had lapped",
        versions.txns.lapped_lookups()
    ));
    Ok(section)
}
