//! Samples of the log's operating units that have no thread of their own to wait on: futures, scans, shipments, opens.
//! The test is alone in its program, since there is one sampler in a process.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Waker};

use collie_env::{Clock as _, Env, RealClock};
use collie_obs::{Batch, Drain, RateTable, Sample, Situation, offer_clock, publish};
use collie_wal::{Log, Mark, Options, ShipOptions};

fn now_ns() -> u64 {
    RealClock.now_ns()
}

/// Tag of a commit.
const COMMIT: u8 = 1;

/// Goal: a future's wait for the log is a sample of COMMIT_WAIT, and a dropped future gives none; scans of the
/// boundary, flushes, shipments and opens give samples with their features. Method: a log without threads, so that a
/// future waits until the test flushes; every call measured; five records, one of them in pieces, of which three
/// commit.
#[test]
fn futures_scans_flushes_shipments_and_opens_give_samples() {
    offer_clock(now_ns);
    let mut drain = Drain::open(&now_ns).expect("nobody else drains");
    assert!(publish(&RateTable::all(1.0)));
    let (dir, env) = (tempfile::tempdir().unwrap(), Env::real());
    let open = || Log::open(&env, dir.path(), Options { threads: false, ..Options::small() }).unwrap().0;
    let log = open();
    let appended = log.writer().append(COMMIT, &[&[7; 100]]).unwrap();
    let pieces = 3; // of 16 KiB, a little less
    log.writer().append(COMMIT, &[&[7; 40 << 10]]).unwrap();
    log.writer().append(2, &[b"no commit"]).unwrap();
    log.writer().append_unlogged(COMMIT, b"cf", |_| ()).unwrap();
    let last = log.writer().append(2, &[&[7; 5000]]).unwrap();
    let context = &mut Context::from_waker(Waker::noop());
    {
        let mut reached = pin!(log.reached(Mark::Durable, last.end));
        let mut dropped = pin!(log.reached(Mark::Written, appended.end));
        assert!(reached.as_mut().poll(context).is_pending() && dropped.as_mut().poll(context).is_pending());
        assert!(reached.as_mut().poll(context).is_pending(), "a second look is the same wait");
        log.flush_wal(true).unwrap();
        assert!(reached.as_mut().poll(context).is_ready());
    }
    let options = ShipOptions::from(appended.start).commits_by(|tag| tag == COMMIT);
    let mut shipper = log.ship("replica", options).unwrap();
    let mut bytes = Vec::new();
    assert!(shipper.try_next(1 << 20, &mut bytes).unwrap().is_some());
    assert!(shipper.try_next(1 << 20, &mut bytes).unwrap().is_none(), "which is no sample");
    drop(shipper);
    log.close().unwrap();
    open().close().unwrap();
    publish(&RateTable::off());
    let mut batch = Batch::new();
    drain.drain(now_ns(), Situation::default(), &mut batch);

    let of = |unit: u8| batch.samples.iter().filter(|sample| sample.ou == unit).collect::<Vec<&Sample>>();
    let waits = of(3).into_iter().filter(|wait| wait.lsn >= appended.end.get()).collect::<Vec<_>>();
    assert!(waits.iter().all(|wait| wait.features[0] != 1), "what was dropped is not told of: {waits:?}");
    let record_bytes = appended.end.bytes_since(appended.start);
    assert!(waits.iter().any(|wait| wait.features[0] == 2 && u64::from(wait.features[1]) >= record_bytes), "{waits:?}");
    assert!(of(4).iter().any(|scan| scan.features[0] > 0), "{:?}", of(4));
    let flushes = of(2).into_iter().filter(|flush| flush.lsn > appended.start.get()).collect::<Vec<_>>();
    let records: u32 = flushes.iter().map(|flush| flush.features[1]).sum();
    assert_eq!(records, 4 + pieces, "{flushes:?}");
    assert!(flushes.iter().all(|flight| (flight.features[0] > 0) == (flight.features[1] > 0)), "{flushes:?}");
    let [shipment] = of(23)[..] else { panic!("one shipment: {:?}", of(23)) };
    assert_eq!((shipment.lsn, shipment.features[0] as usize), (appended.start.get(), bytes.len()));
    assert_eq!(shipment.features[1], 3, "commits");
    let [scan] = of(28)[..] else { panic!("one open found files: {:?}", of(28)) };
    assert!(scan.features[0] > 0 && scan.features[1] > 0 && scan.labels[1] >= u64::from(scan.features[0]), "{scan:?}");
}
