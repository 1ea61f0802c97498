//! What do parallel flushes gain? The same clients, with one in-flight flush at a time and with more.

use std::time::Duration;

use collie_wal::{Log, Options};

use super::{RING, disk_options, float, median, micros};
use crate::{
    Plan, Section,
    clients::{Load, commit},
    report::Row,
};

const FLIGHTS: [u32; 4] = [1, 2, 4, 8];
const CLIENTS: usize = 64;
const TIME: Duration = Duration::from_secs(1);

/// Measures the default protocol with each number of in-flight flushes.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new("flights", "what do flushes side by side bring to clients that wait for the disk?");
    let mut runs = FLIGHTS.map(|_| Vec::new());
    for run in 0..plan.runs() {
        for (flights, loads) in FLIGHTS.into_iter().zip(&mut runs) {
            plan.say(&format!("flights: {flights}, run {}", run + 1));
            let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
            let options = Options { flights, ..disk_options(plan) };
            let (log, _found) = Log::open(&plan.env, scratch.path(), options)?;
            loads.push(commit(plan, &log, CLIENTS, TIME)?);
            log.close()?;
        }
    }
    let rate_of_one = median(&runs[0].iter().map(Load::rate).collect::<Vec<_>>());
    for (flights, loads) in FLIGHTS.into_iter().zip(&runs) {
        let of = |figure: fn(&Load) -> f64| loads.iter().map(figure).collect::<Vec<_>>();
        let case = format!("{CLIENTS} clients, {flights} at a time");
        let mut row = Row::new("collie base", case, "disk", RING)
            .at(f64::from(flights))
            .runs("commits_per_s", &of(Load::rate))
            .runs("p50_us", &of(|load| micros(load.latencies.at_per_mille(500))))
            .runs("p99_us", &of(|load| micros(load.latencies.at_per_mille(990))))
            .runs("flushes_per_commit", &of(|load| float(load.flushes) / float(load.latencies.count().max(1))));
        if flights > 1 {
            let ratio = median(&of(Load::rate)) / rate_of_one;
            row = row.beside("one at a time", ratio);
            if flights == 2 {
                row = row.target(">= 1.3x one at a time", ratio >= 1.3);
            }
        }
        section.rows.push(row);
    }
    Ok(section)
}
