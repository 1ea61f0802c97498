//! The same load on every log: threads that append records of 100 bytes, each waiting as its level requires.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use collie_bench::{DiskFloor, Figure, FloorSlice, Latencies, Machine, Plan, Report, Row, Scratch, Section, Spread};

use crate::peers::{ENTRIES, Entry, Level, Peer};

const SIZE: usize = 100;
const TIME: Duration = Duration::from_millis(1000);
const FLOOR_TIME: Duration = Duration::from_millis(300);
/// One in this many appends is timed where it does not wait for the disk: the clock costs as much as the append.
const TIMED: u64 = 64;

/// Threads for each level.
fn threads(level: Level) -> &'static [usize] {
    match level {
        Level::Disk => &[1, 8, 32],
        Level::Process | Level::Memory => &[1, 32],
    }
}

/// The work of all threads in one run.
struct Load {
    count: u64,
    ns: u64,
    latencies: Latencies,
    floor: FloorSlice,
}

#[expect(clippy::cast_precision_loss, reason = "counts and times of a benchmark are far below 2^52")]
fn per_s(load: &Load) -> f64 {
    load.count as f64 * 1e9 / load.ns.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts and times of a benchmark are far below 2^52")]
fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn run(plan: &Plan, peer: &dyn Peer, threads: usize, level: Level) -> anyhow::Result<Load> {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let clock = &plan.env.clock;
    let every = if level == Level::Disk { 1 } else { TIMED };
    let work = |thread: usize| -> anyhow::Result<(u64, Latencies)> {
        let appender = peer.appender(thread, level);
        // All threads are waited for here, including those whose appender failed.
        ready.wait();
        let mut append = appender?;
        let (mut count, mut latencies) = (0_u64, Latencies::default());
        while !stop.load(Ordering::Relaxed) {
            if count.is_multiple_of(every) {
                let begun = clock.now_ns();
                append(&[0xA5; SIZE])?;
                latencies.record(clock.now_ns() - begun);
            } else {
                append(&[0xA5; SIZE])?;
            }
            count += 1;
        }
        Ok((count, latencies))
    };
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        ready.wait();
        let begun = clock.now_ns();
        let limit_ns = plan.time(TIME).as_nanos();
        while u128::from(clock.now_ns() - begun) < limit_ns {
            std::thread::sleep(Duration::from_millis(20));
            peer.tidy()?;
        }
        stop.store(true, Ordering::Relaxed);
        let (mut count, mut latencies) = (0, Latencies::default());
        for thread in running {
            let (mine, times) = thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            count += mine;
            latencies.merge(&times);
        }
        Ok(Load { count, ns: clock.now_ns() - begun, latencies, floor: FloorSlice::default() })
    })
}

/// Runs every case of one log once, in order; returns `None` if the log is not built.
fn run_all(plan: &Plan, entry: &Entry, floor: &mut DiskFloor) -> anyhow::Result<Option<Vec<Load>>> {
    let mut loads = Vec::new();
    let slice = plan.time(FLOOR_TIME);
    // One log for all cases, in turn, since filling its files takes longer than a case.
    let scratch = Scratch::new(&plan.env, &plan.dir)?;
    let Some(peer) = (entry.open)(&plan.env, scratch.path())? else { return Ok(None) };
    let mut before = floor.slice(slice)?;
    for level in entry.levels {
        for threads in threads(*level) {
            let mut load = run(plan, &*peer, *threads, *level)?;
            let after = floor.slice(slice)?;
            load.floor = before.and(&after);
            loads.push(load);
            before = after;
        }
    }
    Ok(Some(loads))
}

/// Measures every log.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Report> {
    let question = "records of 100 B: how many per second, and how long does one take? (floor: write 4 KiB and sync)";
    let mut section = Section::new("peers", question);
    plan.env.files.create_dir_all(&plan.dir)?;
    let scratch = Scratch::new(&plan.env, &plan.dir)?;
    let mut floor = DiskFloor::create(&plan.env, scratch.path())?;
    let mut all: Vec<Vec<Vec<Load>>> = ENTRIES.iter().map(|_| Vec::new()).collect();
    for _ in 0..plan.runs() {
        for (entry, runs) in ENTRIES.iter().zip(&mut all) {
            plan.say(entry.name);
            runs.extend(run_all(plan, entry, &mut floor)?);
        }
    }
    let slices: Vec<&FloorSlice> = all.iter().flatten().flatten().map(|load| &load.floor).collect();
    let of = |figure: fn(&FloorSlice) -> f64| slices.iter().map(|slice| figure(slice)).collect::<Vec<_>>();
    let row = Row::new("write + fdatasync (floor)", "1 thread, filled file", "disk", "none");
    let row = row.at(1.0).runs("records_per_s", &of(FloorSlice::per_s)).runs("p50_us", &of(FloorSlice::p50_us));
    section.rows.push(row.runs("p99_us", &of(|slice| micros(slice.latencies.at_per_mille(990)))));
    for (entry, runs) in ENTRIES.iter().zip(&all) {
        if runs.is_empty() {
            let row = Row::new(entry.name, "any", "any", "-");
            section.rows.push(row.figure("records_per_s", Figure::Absent("not built")));
            continue;
        }
        let cases = entry.levels.iter().flat_map(|level| threads(*level).iter().map(move |threads| (*level, *threads)));
        for (at, (level, threads)) in cases.enumerate() {
            let loads: Vec<&Load> = runs.iter().map(|loads| &loads[at]).collect();
            let of = |figure: fn(&Load) -> f64| loads.iter().map(|load| figure(load)).collect::<Vec<_>>();
            let case = format!("{threads} thread{}, files {}", if threads == 1 { "" } else { "s" }, entry.files);
            let mut row = Row::new(entry.name, case, level.name(), entry.ring())
                .at(f64::from(u32::try_from(threads).unwrap_or(u32::MAX)))
                .runs("records_per_s", &of(per_s))
                .runs("p50_us", &of(|load| micros(load.latencies.at_per_mille(500))))
                .runs("p99_us", &of(|load| micros(load.latencies.at_per_mille(990))));
            if level == Level::Disk {
                row = row.beside("floor", Spread::of(&of(|load| per_s(load) / load.floor.per_s())).median);
            }
            section.rows.push(row);
        }
    }
    section.notes.push(
        "level memory: Collie also writes and syncs at every 1 MiB or 10 ms; the mutex group log writes and never syncs".to_owned(),
    );
    section.notes.push(
        "level process: Collie with a private ring writes whole frames, 4 KiB at least, and syncs beside it; with a shared ring \
         it returns when the record is in memory that outlives the process; the others write the record alone"
            .to_owned(),
    );
    beside_the_best_peer(&mut section.rows);
    Ok(Report { machine: Machine::of(&plan.dir), runs: plan.runs(), sections: vec![section] })
}

/// Adds to each of Collie's rows the comparison with the best other log of the same level and threads.
fn beside_the_best_peer(rows: &mut [Row]) {
    let others: Vec<Row> = rows.iter().filter(|row| !row.subject.starts_with("collie")).cloned().collect();
    for row in rows.iter_mut().filter(|row| row.subject.starts_with("collie")) {
        let same = |other: &&Row| other.level == row.level && other.at == row.at && !other.subject.contains("floor");
        let rate = |row: &Row| row.median("records_per_s").unwrap_or(0.0);
        let Some(best) = others.iter().filter(same).max_by(|a, b| rate(a).total_cmp(&rate(b))) else { continue };
        let ratio = rate(row) / rate(best);
        *row = row.clone().beside(format!("{} (best peer)", best.subject), ratio).target(">= best peer", ratio >= 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every log takes records at every level that its entry names. Method: a few of each, on the real disk.
    #[test]
    fn every_log_takes_records_at_its_levels() {
        let plan = Plan::new(std::env::temp_dir().as_path(), collie_bench::Pace::Touch);
        for entry in &ENTRIES {
            for level in entry.levels {
                let scratch = Scratch::new(&plan.env, &plan.dir).unwrap();
                let Some(peer) = (entry.open)(&plan.env, scratch.path()).unwrap() else { continue };
                let mut append = peer.appender(0, *level).unwrap();
                (0..5).for_each(|_| append(&[1; SIZE]).unwrap());
                drop(append);
                peer.tidy().unwrap();
            }
        }
    }
}
