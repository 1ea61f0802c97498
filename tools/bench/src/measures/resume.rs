//! How long do acknowledgements stop when a sync fails? The log then writes the bytes that are not durable from memory
//! into the next file; clients wait meanwhile and see no error.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use collie_wal::{Level, Log, WalError};

use super::{RING, disk_options, median, micros};
use crate::{Latencies, Plan, Section, failing_files::FailingFiles, report::Row};

const CLIENTS: [usize; 2] = [1, 64];
const SIZE: usize = 100;
/// Commits before and after the failure.
const TIME: Duration = Duration::from_millis(300);
/// The spares that must be prepared when the sync fails: one to continue in, and one more.
const HEALTHY_SPARES: usize = 2;
/// Far beyond any time that is worth a figure.
const GIVE_UP: Duration = Duration::from_secs(30);

/// The clients' results of one run.
struct Seen {
    /// Time of each commit.
    latencies: Latencies,
    /// The longest commit that was waiting when the sync failed, or began later.
    longest_ns: u64,
}

/// Lets `clients` commit and makes one sync fail meanwhile.
fn run_once(plan: &Plan, clients: usize) -> anyhow::Result<Seen> {
    let (env, files) = FailingFiles::over(&plan.env);
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    let (log, _found) = Log::open(&env, scratch.path(), disk_options(plan))?;
    let (stop, ready, failed_ns) = (AtomicBool::new(false), Barrier::new(clients + 1), AtomicU64::new(u64::MAX));
    let run = || {
        let (mut writer, mut latencies, mut longest_ns) = (log.writer(), Latencies::default(), 0);
        ready.wait();
        while !stop.load(Ordering::Relaxed) {
            let begun = plan.now_ns();
            writer.commit(1, &[0xA5; SIZE], Level::Disk)?;
            let ended = plan.now_ns();
            latencies.record(ended - begun);
            if ended >= failed_ns.load(Ordering::Relaxed) {
                longest_ns = longest_ns.max(ended - begun);
            }
        }
        Ok::<_, WalError>((latencies, longest_ns))
    };
    let (latencies, longest_ns) = std::thread::scope(|scope| {
        let running: Vec<_> = (0..clients).map(|_| scope.spawn(run)).collect();
        ready.wait();
        std::thread::sleep(plan.time(TIME));
        let limit_ns = plan.now_ns() + u64::try_from(GIVE_UP.as_nanos()).expect("seconds");
        while log.stat().spares < HEALTHY_SPARES && plan.now_ns() < limit_ns {
            std::thread::sleep(Duration::from_millis(1));
        }
        failed_ns.store(plan.now_ns(), Ordering::Relaxed);
        files.fail_next_sync();
        while (files.is_armed() || log.stat().rewrites == 0) && plan.now_ns() < limit_ns {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(plan.time(TIME));
        stop.store(true, Ordering::Relaxed);
        let mut all = (Latencies::default(), 0);
        for thread in running {
            let (latencies, longest_ns) = thread.join().expect("a client returns its error")?;
            all.0.merge(&latencies);
            all.1 = all.1.max(longest_ns);
        }
        Ok::<_, WalError>(all)
    })?;
    anyhow::ensure!(log.stat().rewrites == 1, "one sync was told to fail, {} files were left", log.stat().rewrites);
    log.close()?;
    Ok(Seen { latencies, longest_ns })
}

/// Measures the default protocol.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question = "how long do acknowledgements stop when a sync fails and a spare file is at hand?";
    let mut section = Section::new("resume", question);
    for clients in CLIENTS {
        let mut runs = Vec::new();
        for run in 0..plan.runs() {
            plan.say(&format!("resume: {clients} clients, run {}", run + 1));
            runs.push(run_once(plan, clients)?);
        }
        let of = |figure: fn(&Seen) -> f64| runs.iter().map(figure).collect::<Vec<_>>();
        let longest_ms = of(|seen| micros(seen.longest_ns) / 1000.0);
        let p50_us = of(|seen| micros(seen.latencies.at_per_mille(500)));
        let case = format!("{clients} client{}, one sync fails", if clients == 1 { "" } else { "s" });
        let ratio = median(&longest_ms) * 1000.0 / median(&p50_us);
        let row = Row::new("collie base", case, "disk", RING)
            .runs("longest_commit_ms", &longest_ms)
            .runs("p50_us", &p50_us)
            .beside("its own p50", ratio)
            .target("acknowledges again within 50 ms", median(&longest_ms) < 50.0);
        section.rows.push(row);
    }
    Ok(section)
}
