//! `commit`: threads that repeatedly append a record and wait for the disk.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use collie_wal::{Level, Log, WalError};

use crate::{
    Latencies, Plan,
    disk_floor::FloorSlice,
    measures::{float, per_s},
};

/// Bytes of a record.
const SIZE: usize = 100;

/// The result of all clients in one run, with the disk floor measured around it.
pub(crate) struct Load {
    pub(crate) latencies: Latencies,
    ns: u64,
    pub(crate) flushes: u64,
    pub(crate) floor: FloorSlice,
}

impl Load {
    /// Returns commits per second.
    pub(crate) fn rate(&self) -> f64 {
        per_s(self.latencies.count(), self.ns)
    }

    /// Returns the commits per second as a multiple of the rate that one flush at a time allows.
    pub(crate) fn of_one_flush_at_a_time(&self) -> f64 {
        let commits_per_flush = float(self.latencies.count()) / float(self.flushes.max(1));
        self.rate() / (self.floor.per_s() * commits_per_flush)
    }
}

/// Lets `clients` commit for `time` as fast as they can: each appends a record and waits for the disk, repeatedly. The
/// caller fills in `floor`.
///
/// # Errors
/// Those of the log.
pub(crate) fn commit(plan: &Plan, log: &Log, clients: usize, time: Duration) -> Result<Load, WalError> {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(clients + 1));
    let run = || {
        let (mut writer, mut latencies) = (log.writer(), Latencies::default());
        ready.wait();
        while !stop.load(Ordering::Relaxed) {
            let begun = plan.now_ns();
            writer.commit(1, &[0xA5; SIZE], Level::Disk)?;
            latencies.record(plan.now_ns() - begun);
        }
        Ok(latencies)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..clients).map(|_| scope.spawn(run)).collect();
        ready.wait();
        let (begun, syncs) = (plan.now_ns(), log.stat().syncs);
        let limit_ns = plan.time(time).as_nanos();
        while u128::from(plan.now_ns() - begun) < limit_ns {
            std::thread::sleep(Duration::from_millis(20));
            // Frees files, so that the log reuses them as it does under a database.
            log.truncate_before(log.durable())?;
        }
        stop.store(true, Ordering::Relaxed);
        let mut latencies = Latencies::default();
        for thread in running {
            latencies.merge(&thread.join().expect("a client returns its error")?);
        }
        let ns = plan.now_ns() - begun;
        Ok(Load { latencies, ns, flushes: log.stat().syncs - syncs, floor: FloorSlice::default() })
    })
}
