//! Samples of the operating units of statements. This is a test program of its own, since a process has one sampler,
//! and runs under an allocator that counts.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard};

use collie_engine::Options;
use collie_env::{Clock as _, Env, RealClock};
use collie_obs::{Batch, Drain, MEASURED_IN, RateTable, Sample, Situation, Source, UNITS, publish};
use collie_sql::analyze::bound::ResultColumn;
use collie_sql::error::{Report, Result, SqlError};
use collie_sql::session::settings::Settings;
use collie_sql::session::{Client, CopyInput, Database, Formats, NoticeLevel, Session};
use collie_sql::types::Value;
use collie_sql::types::io::TextContext;
use collie_sync::block_on;

/// The units of statements in this crate; rows are sent by the server.
const OF_SQL: std::ops::RangeInclusive<u8> = 14..=18;
const PARSE: u8 = 14;
const BIND: u8 = 15;
const PLAN: u8 = 16;
const EXECUTE_ROW: u8 = 17;

/// An allocator that counts the allocations of each thread.
struct Counting;

std::thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator; the counters are words of the calling thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _counted = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        let _counted = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size() as u64));
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocated_bytes() -> u64 {
    BYTES.with(Cell::get)
}

/// Lets one test run at a time: a process has one sampler.
static SAMPLER: Mutex<()> = Mutex::new(());

fn sampler() -> MutexGuard<'static, ()> {
    collie_obs::offer_allocation_counter(allocated_bytes);
    SAMPLER.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn now_ns() -> u64 {
    RealClock.now_ns()
}

/// A client that counts rows.
#[derive(Default)]
struct Counter {
    rows: usize,
}

impl Client for Counter {
    fn columns(&mut self, _: &[ResultColumn], _: &Formats) {}
    fn row(&mut self, _: &[Value], _: &[ResultColumn], _: &Formats, _: &TextContext) -> Result<()> {
        self.rows += 1;
        Ok(())
    }
    fn complete(&mut self, _: &str) {}
    fn empty(&mut self) {}
    fn suspended(&mut self) {}
    fn notice(&mut self, _: NoticeLevel, _: &Report) {}
    fn error(&mut self, error: &SqlError, text: &str) {
        panic!("{text}: {error}");
    }
    fn copy_in(&mut self, _: usize) {}
    fn copy_out(&mut self, _: usize) {}
    fn copy_data(&mut self, _: &[u8]) {}
    fn copy_done(&mut self) {}
    fn is_full(&self) -> bool {
        false
    }
    async fn drain(&mut self) -> Result<()> {
        Ok(())
    }
    async fn next_copy(&mut self) -> Result<CopyInput> {
        Ok(CopyInput::Done)
    }
}

/// Runs statements and returns the number of their rows.
fn run(session: &mut Session, text: &str) -> usize {
    let mut client = Counter::default();
    block_on(session.simple_query(text, &mut client));
    client.rows
}

/// Binds parameters to the statement `s`, runs it, and ends the message.
fn run_prepared(session: &mut Session, values: &[&[u8]]) -> usize {
    let mut client = Counter::default();
    session.bind("", "s", values.iter().map(|value| Some(*value)), |_| 0, Vec::new()).unwrap();
    block_on(session.execute("", 0, &mut client)).unwrap();
    block_on(session.sync(&mut client)).unwrap();
    client.rows
}

/// Opens a database with a table of three rows, and a session.
fn open() -> (tempfile::TempDir, Arc<Database>, Session) {
    let directory = tempfile::tempdir().unwrap();
    let (database, _) =
        Database::open(directory.path(), Options::small(), Env::real(), Settings::default(), &mut |_| ()).unwrap();
    let mut session = database.connect("collie", "test", None).unwrap();
    run(&mut session, "CREATE TABLE t (id int PRIMARY KEY, v text)");
    run(&mut session, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')");
    (directory, database, session)
}

/// Goal: every unit of statements that the document calls measured gives samples with the statement's numbers; a unit
/// that is not measured gives none, nor does one whose probability is 0. Method: statements of each kind, one of them
/// prepared and bound, with every call measured; once more with one unit off.
#[test]
fn every_measured_unit_of_statements_gives_samples() {
    const TEXT: &str = "UPDATE t SET v = v || $1 WHERE id = $2";
    let _alone = sampler();
    let (_directory, database, mut session) = open();
    let mut drain = Drain::open(&now_ns).expect("nobody else drains");
    let mut batch = Batch::new();
    assert!(publish(&RateTable::all(1.0)));
    assert_eq!(run(&mut session, "SELECT count(*) FROM t, t u"), 1);
    assert_eq!(run(&mut session, "SELECT v FROM t WHERE id BETWEEN 2 AND 3 AND v <> 'x'"), 2);
    run(&mut session, "INSERT INTO t VALUES (4, 'd'), (5, 'e'), (6, 'f')");
    run(&mut session, "DELETE FROM t WHERE id > 4");
    block_on(session.parse("s", TEXT, &[])).unwrap();
    run_prepared(&mut session, &[b"more", b"1"]);
    publish(&RateTable::off());
    drain.drain(now_ns(), Situation::default(), &mut batch);

    for (unit, place) in UNITS.iter().zip(MEASURED_IN).filter(|(unit, _)| OF_SQL.contains(&unit.id)) {
        let found = batch.samples.iter().filter(|sample| sample.ou == unit.id).count();
        assert_eq!(found > 0, !place.is_empty(), "{}: {found} samples, measured in {place:?}", unit.name);
    }
    let has = |unit: u8, is: &dyn Fn(&Sample) -> bool| {
        let of_unit = batch.samples.iter().filter(|sample| sample.ou == unit).collect::<Vec<_>>();
        assert!(of_unit.iter().any(|sample| is(sample)), "unit {unit}: {of_unit:#?}");
    };
    let text_bytes = u32::try_from(TEXT.len()).unwrap();
    has(PARSE, &|parsed| parsed.features[0] == text_bytes && parsed.features[1] > 8);
    has(BIND, &|bound| bound.features[..3] == [2, 5, 1]);
    // Tables, predicates, path: the join, the range, and the row by its key.
    has(PLAN, &|planned| planned.features[0] >= 1 && planned.features[1..3] == [0, 2]);
    has(PLAN, &|planned| planned.features[0] == 1 && planned.features[2] == 1 && planned.features[1] >= 2);
    has(PLAN, &|planned| planned.features[..3] == [1, 1, 0]);
    // Allocated bytes, in every sample.
    for unit in [PARSE, PLAN] {
        let mut of_unit = batch.samples.iter().filter(|sample| sample.ou == unit);
        assert!(of_unit.all(|sample| sample.labels[1] > 0), "unit {unit}: {:#?}", batch.samples);
    }
    // Kind, rows examined, rows written.
    has(EXECUTE_ROW, &|run| run.features[0] == 0 && run.features[1] >= 9);
    has(EXECUTE_ROW, &|run| run.features[0] == 1 && run.features[2] == 3);
    has(EXECUTE_ROW, &|run| run.features[..3] == [2, 1, 1]);
    has(EXECUTE_ROW, &|run| run.features[0] == 3 && run.features[1] >= 2 && run.features[2] == 2);

    let mut table = RateTable::all(1.0);
    Source::ALL.into_iter().for_each(|source| table.set(EXECUTE_ROW, source, 0.0));
    publish(&table);
    run_prepared(&mut session, &[b"again", b"2"]);
    publish(&RateTable::off());
    drain.drain(now_ns(), Situation::default(), &mut batch);
    let taken = |unit: u8| batch.taken[usize::from(unit)].iter().sum::<u64>();
    assert_eq!([taken(BIND), taken(EXECUTE_ROW)], [1, 0], "one is off");
    drop(session);
    database.close().unwrap();
}

/// Goal: measuring statements allocates nothing (RT1). Method: the same statements, bound and planned each time, with
/// these units off and with every call measured: this thread makes as many allocations.
#[test]
fn measuring_statements_allocates_nothing() {
    const EXPLAINED: &str = "EXPLAIN SELECT v FROM t WHERE id = 2";
    let _alone = sampler();
    let (_directory, database, mut session) = open();
    block_on(session.parse("s", "SELECT v FROM t WHERE id = $1", &[])).unwrap();
    let mut statements = |rounds: u32| {
        let before = ALLOCATIONS.with(Cell::get);
        for _ in 0..rounds {
            assert_eq!(run_prepared(&mut session, &[b"2"]), 1);
            assert_eq!(collie_sql::parse::statements(EXPLAINED).unwrap().len(), 1);
            assert!(run(&mut session, EXPLAINED) > 0);
        }
        ALLOCATIONS.with(Cell::get) - before
    };
    let mut table = RateTable::off();
    for unit in [PARSE, BIND, PLAN, EXECUTE_ROW] {
        Source::ALL.into_iter().for_each(|source| table.set(unit, source, 1.0));
    }
    // Warms up: buffers get their sizes, the caches their entries, and the thread its lane.
    statements(20);
    publish(&table);
    statements(20);
    publish(&RateTable::off());
    let off = statements(50);
    assert!(off > 0, "the counter counts");
    publish(&table);
    let mut drain = Drain::open(&now_ns).expect("nobody else drains");
    let on = statements(50);
    publish(&RateTable::off());
    let mut batch = Batch::new();
    drain.drain(now_ns(), Situation::default(), &mut batch);
    for unit in [PARSE, BIND, PLAN, EXECUTE_ROW] {
        assert!(batch.taken[usize::from(unit)].iter().sum::<u64>() >= 50, "unit {unit} was measured");
    }
    assert_eq!(on, off, "allocations of fifty rounds, measured and not");
    drop(session);
    database.close().unwrap();
}

/// Goal: PARSE reports exactly the bytes that its thread allocates, and PLAN more for a larger plan. Method: statements
/// of two sizes, under an allocator that counts.
#[test]
fn parse_and_plan_tell_what_they_allocate() {
    const SMALL: &str = "SELECT v FROM t WHERE id = 1";
    const LARGE: &str = "SELECT a.v, b.v, c.v FROM t a, t b, t c WHERE a.id = b.id AND b.id = c.id AND c.v IN ('a', 'b', 'c') ORDER BY 1, 2";
    let _alone = sampler();
    let (_directory, database, mut session) = open();
    let mut drain = Drain::open(&now_ns).expect("nobody else drains");
    let mut batch = Batch::new();
    assert!(publish(&RateTable::all(1.0)));
    // The thread gets its lane.
    run(&mut session, "SELECT 1");
    drain.drain(now_ns(), Situation::default(), &mut batch);
    let [small, large] = [SMALL, LARGE].map(|text| {
        let before = allocated_bytes();
        let parsed = collie_sql::parse::statements(text).unwrap();
        let parse_bytes = allocated_bytes() - before;
        drop(parsed);
        drain.drain(now_ns(), Situation::default(), &mut batch);
        let told = batch.samples.iter().filter(|sample| sample.ou == PARSE).map(|sample| sample.labels[1]);
        assert_eq!(told.collect::<Vec<_>>(), [parse_bytes], "{text}");
        run(&mut session, text);
        drain.drain(now_ns(), Situation::default(), &mut batch);
        let planned = batch.samples.iter().find(|sample| sample.ou == PLAN).expect("it was planned");
        [parse_bytes, planned.labels[1]]
    });
    publish(&RateTable::off());
    assert!(small.into_iter().zip(large).all(|(small, large)| 0 < small && small < large), "{small:?}, {large:?}");
    drop(session);
    database.close().unwrap();
}

/// Goal: EXECUTE_ROW reports the depth of the indexes that its plan descends: by a key, by a range, in a nested loop,
/// in a subquery, after another index, of a table that is written; more in a larger table; none if a whole table is
/// read. Method: tables of one level and of several, whose depths are those of the engine; statements of each kind.
#[test]
fn executions_tell_the_depth_of_their_indexes() {
    let _alone = sampler();
    let (_directory, database, mut session) = open();
    run(&mut session, "CREATE TABLE large (id int PRIMARY KEY, v int)");
    run(&mut session, "CREATE INDEX large_v ON large (v)");
    run(&mut session, "INSERT INTO large SELECT n, n FROM generate_series(1, 9000) n");
    let mut drain = Drain::open(&now_ns).expect("nobody else drains");
    let mut batch = Batch::new();
    assert!(publish(&RateTable::all(1.0)));
    let mut depth = |text: &str| {
        run(&mut session, text);
        drain.drain(now_ns(), Situation::default(), &mut batch);
        let steps: Vec<u32> =
            batch.samples.iter().filter(|sample| sample.ou == EXECUTE_ROW).map(|sample| sample.features[3]).collect();
        assert!(!steps.is_empty() && steps.iter().all(|depth| *depth == steps[0]), "{text}: {steps:?}");
        steps[0]
    };
    let small = depth("SELECT v FROM t WHERE id = 2");
    assert_eq!(small, 1, "three rows are one level");
    let large = depth("SELECT v FROM large WHERE id = 77");
    // Partitions of some thousand rows, four levels each.
    assert!((4..=8).contains(&large), "{large}");
    assert_eq!(depth("SELECT v FROM large WHERE id BETWEEN 10 AND 20"), large);
    let behind = depth("SELECT id FROM large WHERE v = 77");
    assert!((large + 4..=large + 8).contains(&behind), "{behind}: the index, then the table's rows");
    assert_eq!(depth("SELECT count(*) FROM large"), 0, "a whole table");
    assert_eq!(depth("SELECT 1"), 0);
    assert_eq!(depth("SELECT large.v FROM t, large WHERE large.id = t.id"), large, "the inner side, once");
    assert_eq!(depth("SELECT (SELECT v FROM large WHERE id = 5) FROM t WHERE id = 1"), small + large);
    assert_eq!(depth("WITH w AS (SELECT v FROM t WHERE id = 1 FOR UPDATE) SELECT * FROM w"), small);
    assert_eq!(depth("UPDATE large SET v = 0 WHERE id = 5"), large);
    assert_eq!(depth("DELETE FROM t WHERE id = 3"), small);
    assert_eq!(depth("INSERT INTO t VALUES (3, 'c')"), small);
    assert_eq!(depth("INSERT INTO large VALUES (9001, 9001)"), behind, "its rows, and its other index");
    publish(&RateTable::off());
    drop(session);
    database.close().unwrap();
}
