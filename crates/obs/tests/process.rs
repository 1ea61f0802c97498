//! Tests the process's sampler through the interfaces of call sites and of the drain. It is one test, because the
//! process has one sampler.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use collie_base::Lsn;
use collie_obs::{
    ApplyRow, Batch, Beside, CALLS_MAX, Drain, FLAG_INJECTED_CLOCK, LockWait, LogFlush, RateTable, RowRead, Sample,
    Situation, Source, call_beside_samples, is_measured, moment_for, offer_clock, publish, set_default_source, start,
    start_run, start_wait, work_for,
};

static NOW_NS: AtomicU64 = AtomicU64::new(1_000_000_000);

/// Returns a time that advances by a microsecond with each reading.
fn now_ns() -> u64 {
    NOW_NS.fetch_add(1_000, Relaxed)
}

fn of(batch: &Batch, unit: u8) -> Vec<Sample> {
    batch.samples.iter().filter(|sample| sample.ou == unit).copied().collect()
}

/// Measures a million empty rounds, or the time after them if it restarts.
fn flush(restarts: bool) {
    let mut span = start::<LogFlush>().expect("every call");
    for round in 0..1_000_000_u32 {
        std::hint::black_box(round);
    }
    if restarts {
        span.restart();
    }
    span.stop_with(Lsn::ZERO, LogFlush::default(), [0; 3]);
}

/// Checks that the time before a restart is not measured (T124). It repeats until the difference shows, since a
/// thread may lose its processor anywhere.
fn restarted_spans_have_no_time_before(drain: &mut Drain, batch: &mut Batch) {
    for _ in 0..100 {
        [false, true].into_iter().for_each(flush);
        drain.drain(now_ns(), Situation::default(), batch);
        let [whole, rest] = of(batch, 2)[..] else { panic!("two calls") };
        if rest.labels[0] < whole.labels[0] / 4 {
            return;
        }
    }
    panic!("a restart changes nothing");
}

static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Checks that the functions of `Beside` are called once at each end of a sample that is taken and recorded, that
/// the time of the first is not measured, and that they stay. The clock advances by a microsecond with each
/// reading, and by a second in the function of this test.
fn what_is_beside_samples_is_called(drain: &mut Drain, batch: &mut Batch) {
    let begins = || {
        BEGUN.fetch_add(1, Relaxed);
        NOW_NS.fetch_add(1_000_000_000, Relaxed);
    };
    let ends = || {
        ENDED.fetch_add(1, Relaxed);
    };
    assert!(call_beside_samples(Beside { begins, ends }) && !call_beside_samples(Beside { begins, ends }));
    start::<RowRead>().expect("every call").stop(RowRead::default());
    let _given_up = start::<RowRead>();
    publish(&RateTable::off());
    assert!(start::<RowRead>().is_none());
    assert_eq!((BEGUN.load(Relaxed), ENDED.load(Relaxed)), (2, 1));
    drain.drain(now_ns(), Situation::default(), batch);
    let [read] = of(batch, 9)[..] else { panic!("one call") };
    assert!(read.labels[0] < 500_000_000, "{read:?}");
}

/// Goal: the values of a call site arrive whole, with their probability, source and run; a call that is not stopped
/// leaves no sample; a wait may end on another thread, and one that is given up counts as dropped. Method: two
/// threads, spans, a run longer than one sample, a dropped span, an empty run, a wait that moves to a thread
/// without other measurements, a restart, functions of `Beside`, and off.
#[test]
fn call_sites_samples_arrive() {
    offer_clock(now_ns);
    let mut drain = Drain::open(&now_ns).expect("nobody else drains");
    assert!(Drain::open(&now_ns).is_none());
    let mut batch = Batch::new();
    assert!(start::<RowRead>().is_none(), "nobody asked for samples");
    assert!(!is_measured::<LockWait>() && moment_for::<LockWait>() == 0);
    assert!(publish(&RateTable::all(1.0)), "a clock was offered");
    set_default_source(Source::Local);
    let read = RowRead { key_bytes: 8, value_bytes: 100, chain_steps: 1, found: 1 };
    start::<RowRead>().expect("every call").stop(read);
    let _not_stopped = start::<RowRead>();
    let there = std::thread::spawn(|| {
        let _scope = work_for(Source::Apply);
        let flush = LogFlush { stream_bytes: 4096, io_mode: 2, ..LogFlush::default() };
        start::<LogFlush>().expect("every call").stop_with(Lsn::new(8192), flush, [10, 20, 8192]);
        let (mut rows, mut runs) = (0_u32, 0);
        while rows < 20 {
            let mut run = start_run::<ApplyRow>().expect("every run");
            let row = |rows: u32| ApplyRow { kind: rows % 2, key_bytes: 10, ..ApplyRow::default() };
            while rows < 20 {
                rows += 1;
                if run.add(row(rows)) {
                    break;
                }
            }
            run.stop();
            runs += 1;
        }
        start_run::<ApplyRow>().expect("every run").stop();
        let calls = (0..3).map(|number| ApplyRow { kind: number, queue_rows: 5, ..ApplyRow::default() });
        start::<ApplyRow>().expect("every run").end().tell_run(Lsn::new(128), calls, []);
        start::<ApplyRow>().expect("every run").end().tell_run(Lsn::new(128), std::iter::empty(), []);
        runs
    });
    assert_eq!(there.join().expect("it ends"), 2);
    let held_since = moment_for::<LockWait>();
    NOW_NS.fetch_add(5_000_000, Relaxed);
    let mut wait = start_wait::<LockWait>().expect("every wait");
    wait.restart();
    assert!(is_measured::<LockWait>() && wait.us_since(0) == 0, "none");
    let about = LockWait { strength: 3, queue_len: 2, holder_age_us: wait.us_since(held_since) };
    std::thread::spawn(move || wait.stop_with(Lsn::new(64), about, [])).join().expect("it ends");
    start_wait::<LockWait>().expect("every wait").give_up();
    let _not_ended = start_wait::<LockWait>();
    drain.drain(now_ns(), Situation { commits_per_s: 7.0, ..Situation::default() }, &mut batch);

    let [reads, flushes, rows] = [of(&batch, 9), of(&batch, 2), of(&batch, 26)];
    assert_eq!((reads.len(), flushes.len(), rows.len()), (1, 1, 3));
    assert_eq!((reads[0].source, reads[0].calls, &reads[0].features[..4]), (1, 1, &[8, 100, 1, 1][..]));
    assert_eq!((flushes[0].source, flushes[0].lsn, &flushes[0].labels[1..]), (0, 8192, &[10, 20, 8192][..]));
    assert_eq!((rows[0].calls, rows[1].calls), (CALLS_MAX, 20 - CALLS_MAX));
    assert_eq!(
        (rows[0].features[1], rows[1].features[1], rows[1].features[0]),
        (160, 40, 0),
        "sums; a code is the last"
    );
    assert_eq!((rows[2].calls, rows[2].lsn, &rows[2].features[..5]), (3, 128, &[2, 0, 0, 0, 15][..]));
    assert_ne!(reads[0].thread, flushes[0].thread);
    let [wait] = of(&batch, 8)[..] else { panic!("one wait has ended") };
    assert_eq!((wait.source, wait.lsn, &wait.features[..2]), (1, 64, &[3, 2][..]), "of the thread that began");
    // With the processor's own counter only an advance of the time is certain.
    let age_us = wait.features[2];
    assert!(
        if wait.flags & FLAG_INJECTED_CLOCK == 0 { age_us > 0 } else { (4_990..5_100).contains(&age_us) },
        "{age_us}"
    );
    assert!(wait.thread != reads[0].thread && batch.dropped[8] == 1, "{wait:?}, {:?}", batch.dropped);
    for sample in &batch.samples {
        assert!((sample.p - 1.0).abs() < f32::EPSILON && sample.version == 1, "{sample:?}");
        let row = batch.contexts.iter().find(|row| (row.ctx, row.thread) == (sample.ctx, sample.thread));
        assert!(row.is_some_and(|row| (row.situation.commits_per_s - 7.0).abs() < f32::EPSILON), "RT2: {sample:?}");
    }
    assert_eq!(batch.taken[26], [3, 0, 0, 0]);
    assert!(batch.spent_us > 0.0 && drain.sample_ns() > 0.0);

    restarted_spans_have_no_time_before(&mut drain, &mut batch);
    what_is_beside_samples_is_called(&mut drain, &mut batch);
    publish(&RateTable::off());
    assert!(start::<RowRead>().is_none() && start_run::<ApplyRow>().is_none());
    drain.drain(now_ns(), Situation::default(), &mut batch);
    assert!(batch.samples.is_empty());
}
