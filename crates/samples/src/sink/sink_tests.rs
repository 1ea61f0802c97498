//! Tests of the sink, on a simulated disk.

use std::sync::Arc;

use collie_env::{Env, Fault, SimClock, SimFiles};

use super::*;
use crate::sample_of_unit;

/// A second of the clock.
const SECOND_NS: u64 = 1_000_000_000;

struct Bench {
    env: Env,
    disk: SimFiles,
    clock: Arc<SimClock>,
}

impl Bench {
    fn new() -> Self {
        let (mut env, disk) = Env::simulated(7);
        let clock = Arc::new(SimClock::new());
        env.clock = clock.clone();
        Self { env, disk, clock }
    }

    fn open(&self, options: SinkOptions) -> SampleSink {
        SampleSink::open(&self.env, "/data".as_ref(), Origin::unknown("n1"), options).unwrap()
    }

    fn dir(&self) -> SampleDir {
        SampleDir::new(self.env.files.clone(), "/data".as_ref())
    }

    /// Returns unit, number and rows of each file.
    fn files(&self) -> Vec<(u8, u64, usize)> {
        let dir = self.dir();
        let rows = |name: &FileName| dir.read(name).unwrap().rows.len();
        dir.list().unwrap().iter().map(|name| (name.unit, name.seq, rows(name))).collect()
    }
}

fn samples(unit: u8, count: u64) -> Vec<Sample> {
    (0..count).map(|n| sample_of_unit(unit, 100 + n)).collect()
}

/// Goal: a file is closed at its number of rows, at its age, and at the end. Method: each of the three, with a clock
/// that is moved.
#[test]
fn files_are_closed_by_rows_by_age_and_at_the_end() {
    let bench = Bench::new();
    let mut sink = bench.open(SinkOptions { file_rows_max: 10, ..SinkOptions::default() });
    sink.add(&samples(13, 25));
    assert_eq!(bench.files(), [(13, 1, 10), (13, 2, 10)]);
    bench.clock.advance_ns(59 * SECOND_NS);
    sink.tick();
    assert_eq!(bench.files().len(), 2, "five rows wait");
    bench.clock.advance_ns(SECOND_NS);
    sink.tick();
    sink.add(&samples(9, 3));
    assert_eq!(bench.files().len(), 3);
    sink.finish();
    assert_eq!(bench.files(), [(13, 1, 10), (13, 2, 10), (13, 3, 5), (9, 4, 3)]);
    let rows: Vec<u64> = (1..=3)
        .flat_map(|seq| {
            let name = FileName { day: 20_000_101, seq, node: "n1".to_owned(), unit: 13, version: 1 };
            bench.dir().read(&name).unwrap().rows.into_iter().map(|row| row.sample.labels[0]).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(rows, (100..125).collect::<Vec<u64>>(), "each sample once, in order");
    assert_eq!((sink.written_rows(), sink.dropped_rows()), (28, 0));
}

/// Goal: memory is bounded over all units. Method: several units that each have fewer rows than a file takes.
#[test]
fn the_unit_with_most_rows_is_written_when_memory_is_full() {
    let bench = Bench::new();
    let mut sink = bench.open(SinkOptions { waiting_rows_max: 20, ..SinkOptions::default() });
    sink.add(&samples(1, 4));
    sink.add(&samples(2, 12));
    assert_eq!(bench.files(), []);
    sink.add(&samples(3, 4));
    assert_eq!(bench.files(), [(2, 1, 12)]);
}

/// Goal: a number is used once, also by the next process, and unfinished files are removed. Method: the sink is opened
/// again after files were written and one was left unfinished.
#[test]
fn numbers_go_on_after_a_restart() {
    let bench = Bench::new();
    let mut sink = bench.open(SinkOptions::default());
    sink.add(&samples(13, 2));
    sink.finish();
    let left = Path::new("/data/samples/v1/ou=13/ver=1/day=20000101/n1-2.parquet.tmp");
    bench.env.files.create(left).unwrap().write_at(0, b"PAR1").unwrap();
    let mut sink = bench.open(SinkOptions::default());
    assert!(bench.env.files.open(left, collie_env::Access::Read).is_err());
    sink.add(&samples(13, 3));
    sink.finish();
    assert_eq!(bench.files(), [(13, 1, 2), (13, 2, 3)]);
}

/// Goal: after a write there are never more bytes than allowed, and the oldest files are removed first. Method: a cap
/// of about three files that is passed, and a cap that is below any file.
#[test]
fn the_oldest_files_are_removed_above_the_cap() {
    let bench = Bench::new();
    let mut sink = bench.open(SinkOptions::default());
    sink.add(&samples(13, 50));
    sink.finish();
    let one = sink.bytes();
    let mut sink = bench.open(SinkOptions { bytes_max: 3 * one + one / 2, ..SinkOptions::default() });
    for _ in 0..4 {
        sink.add(&samples(13, 50));
        sink.finish();
        assert!(sink.bytes() <= 3 * one + one / 2);
    }
    assert_eq!(bench.files(), [(13, 3, 50), (13, 4, 50), (13, 5, 50)]);
    assert_eq!(sink.removed_files(), 2);
    let mut sink = bench.open(SinkOptions { bytes_max: 1, ..SinkOptions::default() });
    sink.add(&samples(9, 1));
    sink.finish();
    assert_eq!(bench.files(), [(9, 6, 1)], "the newest stays, whatever the cap");
}

/// Goal: a low disk stops collection with a reason, and free space starts it again. Method: a simulated disk that is
/// filled and emptied.
#[test]
fn a_low_disk_stops_collection_until_there_is_room() {
    let bench = Bench::new();
    let options = SinkOptions { free_bytes_min: 1 << 20, ..SinkOptions::default() };
    let mut sink = bench.open(options);
    sink.add(&samples(13, 5));
    bench.disk.set_capacity(Some(bench.disk.used_bytes() + 1000));
    bench.clock.advance_ns(60 * SECOND_NS);
    sink.tick();
    let SinkState::Stopped { reason } = sink.state().clone() else { panic!("it goes on") };
    assert!(reason.contains("free space"), "{reason}");
    sink.add(&samples(13, 7));
    assert_eq!((sink.written_rows(), sink.dropped_rows()), (0, 12));
    bench.disk.set_capacity(None);
    bench.clock.advance_ns(60 * SECOND_NS);
    sink.tick();
    assert_eq!(*sink.state(), SinkState::Collecting);
    sink.add(&samples(13, 1));
    sink.finish();
    assert_eq!(sink.written_rows(), 1);
}

/// Goal: if any call of the disk fails, only the counters show it, and no part of a file has a name. Method: each
/// changing call of a write fails once; a minute later all succeed.
#[test]
fn a_write_that_fails_is_dropped_and_counted() {
    let calls = {
        let bench = Bench::new();
        let mut sink = bench.open(SinkOptions::default());
        let before = bench.disk.calls();
        sink.add(&samples(13, 5));
        sink.finish();
        bench.disk.calls() - before
    };
    let mut failed = 0;
    for call in 1..=calls {
        let bench = Bench::new();
        let mut sink = bench.open(SinkOptions::default());
        bench.disk.fail_call(bench.disk.calls() + call, Fault::Eio);
        sink.add(&samples(13, 5));
        sink.finish();
        let stopped = *sink.state() != SinkState::Collecting;
        failed += u64::from(stopped);
        assert_eq!(sink.written_rows() + sink.dropped_rows(), 5, "call {call}");
        assert!(bench.files().iter().all(|(_, _, rows)| *rows == 5), "call {call}: a part has a name");
        bench.disk.clear_faults();
        bench.clock.advance_ns(60 * SECOND_NS);
        sink.tick();
        sink.add(&samples(13, 2));
        sink.finish();
        assert_eq!(*sink.state(), SinkState::Collecting, "call {call}");
        assert_eq!(bench.files().last(), Some(&(13, 2, 2)), "call {call}");
    }
    assert!(failed >= 3, "{failed} of {calls} calls failed: creating, writing and naming should");
}

/// Goal: a file names the configuration under which its rows were taken. Method: the configuration changes between two
/// rows.
#[test]
fn a_changed_configuration_closes_files() {
    let bench = Bench::new();
    let mut sink = bench.open(SinkOptions::default());
    sink.set_config_epoch(4);
    sink.add(&samples(13, 1));
    sink.add_contexts(&[ContextRow { ctx: 1, ..ContextRow::default() }]);
    sink.set_config_epoch(5);
    sink.add(&samples(13, 2));
    sink.finish();
    let dir = bench.dir();
    let names: Vec<FileName> = dir.list().unwrap();
    let epochs: Vec<(u8, u64)> =
        names.iter().map(|name| (name.unit, dir.read(name).map_or(0, |file| file.footer.config_epoch))).collect();
    assert_eq!(epochs, [(13, 4), (CONTEXT_UNIT, 0), (13, 5)]);
}

/// Goal: samples of an undeclared unit are not written. Method: unit 200.
#[test]
fn unknown_units_are_dropped() {
    let bench = Bench::new();
    let mut sink = bench.open(SinkOptions::default());
    sink.add(&[sample_of_unit(200, 5)]);
    sink.finish();
    assert_eq!((bench.files().len(), sink.dropped_rows()), (0, 1));
}
