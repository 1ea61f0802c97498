//! What do clients reach that wait for the disk, compared with what the disk does for a single writer alone?
//!
//! Slices of the floor run between the cases, so that each case has its floor from just before and just after.

use std::time::Duration;

use collie_wal::{Log, Options, WalError};

use super::{NOT_BUILT, RING, disk_options, float, median, micros};
use crate::{
    Pace, Plan, Section,
    clients::{Load, commit},
    disk_floor::{DiskFloor, FloorSlice},
    hog::Hog,
    report::{Figure, Row},
    subjects::{Kind, OWN},
};

const CLIENTS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const TIME: Duration = Duration::from_millis(1000);
const FLOOR_TIME: Duration = Duration::from_millis(500);

/// Runs all cases of one protocol once; `None` if it is not built.
fn run_once(plan: &Plan, kind: Kind, floor: &mut DiskFloor) -> anyhow::Result<Option<Vec<Load>>> {
    let options = Options {
        protocol: kind.protocol().expect("the log's own kinds have one"),
        slots: if plan.pace == Pace::Touch { 8 } else { 256 },
        chunk_bytes: 16 << 10,
        ..disk_options(plan)
    };
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    let log = match Log::open(&plan.env, scratch.path(), options) {
        Ok((log, _found)) => log,
        Err(WalError::InvalidOptions { message }) if message.contains("not built") => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let slice = plan.time(FLOOR_TIME);
    let mut loads = Vec::new();
    let mut before = floor.slice(slice)?;
    for clients in CLIENTS {
        let mut load = commit(plan, &log, clients, TIME)?;
        let after = floor.slice(slice)?;
        load.floor = before.and(&after);
        loads.push(load);
        before = after;
    }
    log.close()?;
    Ok(Some(loads))
}

/// Returns the row of `kind` with `clients`.
fn row(kind: Kind, clients: usize, hog: &str, loads: &[&Load]) -> Row {
    let of = |figure: fn(&Load) -> f64| loads.iter().map(|load| figure(load)).collect::<Vec<_>>();
    let row =
        Row::new(kind.name(), format!("{clients} client{}{hog}", if clients == 1 { "" } else { "s" }), "disk", RING)
            .at(float(clients as u64))
            .runs("commits_per_s", &of(Load::rate))
            .runs("p50_us", &of(|load| micros(load.latencies.at_per_mille(500))))
            .runs("p99_us", &of(|load| micros(load.latencies.at_per_mille(990))))
            .runs("p999_us", &of(|load| micros(load.latencies.at_per_mille(999))))
            .runs("flushes_per_commit", &of(|load| float(load.flushes) / float(load.latencies.count().max(1))))
            .runs("floor_p50_us", &of(|load| load.floor.p50_us()));
    let p50 = median(&of(|load| micros(load.latencies.at_per_mille(500)) / load.floor.p50_us()));
    let batching = median(&of(Load::of_one_flush_at_a_time));
    let flushes = median(&of(|load| float(load.flushes) / float(load.latencies.count().max(1))));
    let row = row.beside("floor p50", p50);
    match clients {
        1 => row.target("p50 <= 1.10x floor", p50 <= 1.10),
        64 => {
            let row = row.beside("floor x batching", batching);
            let row = row.target(">= 0.95x floor x batching", batching >= 0.95);
            row.target("<= 1 flush per commit", flushes <= 1.0)
        }
        _ => row.beside("floor x batching", batching),
    }
}

/// Measures the log's own protocols, with and without a thread that hogs a processor.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question = "what do clients reach that wait for the disk? (floor: write 4 KiB over a filled file and sync)";
    let mut section = Section::new("durable", question);
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    let mut floor = DiskFloor::create(&plan.env, scratch.path())?;
    for with_hog in [false, true] {
        let hog = if with_hog { ", 1 hog" } else { "" };
        let mut runs = OWN.map(|_| Vec::new());
        for run in 0..plan.runs() {
            for (kind, runs) in OWN.into_iter().zip(&mut runs) {
                plan.say(&format!("durable: {}{hog}, run {}", kind.name(), run + 1));
                let _hog = with_hog.then(Hog::start);
                runs.extend(run_once(plan, kind, &mut floor)?);
            }
        }
        let slices: Vec<&FloorSlice> = runs.iter().flatten().flatten().map(|load| &load.floor).collect();
        let of = |figure: fn(&FloorSlice) -> f64| slices.iter().map(|slice| figure(slice)).collect::<Vec<_>>();
        if !slices.is_empty() {
            let row = Row::new("write + fdatasync (floor)", format!("1 client{hog}"), "disk", "none, a file")
                .at(1.0)
                .runs("commits_per_s", &of(FloorSlice::per_s))
                .runs("p50_us", &of(FloorSlice::p50_us))
                .runs("p99_us", &of(|slice| micros(slice.latencies.at_per_mille(990))))
                .runs("p999_us", &of(|slice| micros(slice.latencies.at_per_mille(999))));
            section.rows.push(row.figure("flushes_per_commit", Figure::Count(1)));
        }
        for (kind, runs) in OWN.into_iter().zip(&runs) {
            if runs.is_empty() {
                let row = Row::new(kind.name(), format!("any{hog}"), "disk", RING);
                section.rows.push(row.figure("commits_per_s", Figure::Absent(NOT_BUILT)));
            }
            for (at, clients) in CLIENTS.into_iter().enumerate().filter(|_| !runs.is_empty()) {
                let loads: Vec<&Load> = runs.iter().map(|loads| &loads[at]).collect();
                section.rows.push(row(kind, clients, hog, &loads));
            }
        }
    }
    section
        .notes
        .push("floor x batching: floor flushes per second times commits per flush, of the same case".to_owned());
    Ok(section)
}
