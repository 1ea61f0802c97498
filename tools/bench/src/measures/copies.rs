//! What do copies of the log in further directories cost a commit? All are on one device, so this is the cost of the
//! work, not the gain from a second device.

use std::time::Duration;

use collie_wal::{Log, Options};

use super::{RING, disk_options, median, micros};
use crate::{
    Plan, Section,
    clients::{Load, commit},
    report::Row,
};

const COPIES: [usize; 3] = [0, 1, 2];
const CLIENTS: [usize; 2] = [1, 64];
const TIME: Duration = Duration::from_millis(700);

/// Measures the default protocol with each number of copies.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new("copies", "what do copies of the log on the same device cost a commit?");
    let mut runs = COPIES.map(|_| CLIENTS.map(|_| Vec::new()));
    for run in 0..plan.runs() {
        for (count, runs) in COPIES.into_iter().zip(&mut runs) {
            plan.say(&format!("copies: {count}, run {}", run + 1));
            let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
            let dirs = (0..count).map(|number| scratch.path().join(format!("copy{number}"))).collect();
            let options = Options { copies: dirs, ..disk_options(plan) };
            let (log, _found) = Log::open(&plan.env, &scratch.path().join("log"), options)?;
            for (clients, loads) in CLIENTS.into_iter().zip(runs) {
                loads.push(commit(plan, &log, clients, TIME)?);
            }
            log.close()?;
        }
    }
    for (count, by_clients) in COPIES.into_iter().zip(&runs) {
        for (at, (clients, loads)) in CLIENTS.into_iter().zip(by_clients).enumerate() {
            let of = |figure: fn(&Load) -> f64| loads.iter().map(figure).collect::<Vec<_>>();
            let case = format!("{clients} client{}, {count} copies", if clients == 1 { "" } else { "s" });
            let row = Row::new("collie base", case, "disk", RING)
                .runs("commits_per_s", &of(Load::rate))
                .runs("p50_us", &of(|load| micros(load.latencies.at_per_mille(500))))
                .runs("p99_us", &of(|load| micros(load.latencies.at_per_mille(990))));
            let alone = median(&runs[0][at].iter().map(Load::rate).collect::<Vec<_>>());
            section.rows.push(if count == 0 { row } else { row.beside("no copies", median(&of(Load::rate)) / alone) });
        }
    }
    Ok(section)
}
