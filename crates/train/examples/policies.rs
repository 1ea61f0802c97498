//! Prints the effect of each policy on a replica's delay: `cargo run -p collie-train --example policies [seed ...]`.
//!
//! For every disturbance it prints the share of one-second windows out of bound and, in brackets, the share of the
//! offered collection that was done, both in per cent. The figures come from a model (`collie_train::queue`), not from
//! the product. It runs five seeds unless the arguments name others.

use std::process::ExitCode;

use collie_train::{
    policy::{Governor, Headroom, Policy, PolicyKind, Settings},
    queue::{self, Disturbance, Tick},
};

const NAMES: [&str; 9] = [
    "P1 always",
    "P2 hard 100 ms",
    "P3 3 sigma",
    "P4 switchback 10 %",
    "P5 aimd 2 ms",
    "P6 rho_max 0.80",
    "P6 rho_max 0.85",
    "P6 rho_max 0.90",
    "P6 with its guards",
];

fn bare(mut policy: Box<dyn Policy>) -> Tick {
    Box::new(move |signals| policy.tick(signals))
}

fn start(row: usize) -> Tick {
    let settings = Settings::default();
    let headroom =
        |utilisation_max| -> Box<dyn Policy> { Box::new(Headroom::new(&Settings { utilisation_max, ..settings })) };
    match row {
        0 => bare(PolicyKind::Always.start(&settings)),
        1 => bare(PolicyKind::HardLimit.start(&settings)),
        2 => bare(PolicyKind::Sigma.start(&settings)),
        3 => bare(PolicyKind::Switchback.start(&settings)),
        4 => bare(PolicyKind::Aimd.start(&settings)),
        5 => bare(headroom(0.80)),
        6 => bare(headroom(0.85)),
        7 => bare(headroom(0.90)),
        _ => {
            let mut governor = Governor::new(PolicyKind::Headroom, settings, 4);
            Box::new(move |signals| governor.tick(signals))
        }
    }
}

fn main() -> ExitCode {
    let named: Result<Vec<u64>, _> = std::env::args().skip(1).map(|text| text.parse()).collect();
    let Ok(named) = named else {
        eprintln!("usage: policies [seed ...], seeds are whole numbers");
        return ExitCode::from(2);
    };
    let seeds = if named.is_empty() { vec![1, 2, 3, 4, 5] } else { named };
    for offered_us in [40.0, 2.0] {
        println!("\noffered {offered_us} us per commit: windows out of bound % (collection kept %)");
        let heads: String = Disturbance::ALL.iter().map(|kind| format!("{:>17}", format!("{kind:?}"))).collect();
        println!("{:20}{heads}", "");
        let cells = queue::table(&seeds, offered_us, NAMES.len(), &start);
        let delays: String = cells[0].iter().map(|cell| format!("{:>14.2} ms", cell.without_us / 1000.0)).collect();
        println!("{:20}{delays}", "P0, mean delay");
        for (name, row) in NAMES.iter().zip(&cells) {
            let text = |cell: &queue::Cell| format!("{:.1} ({:.1})", 100.0 * cell.out_share, 100.0 * cell.kept_share);
            let row: String = row.iter().map(|cell| format!("{:>17}", text(cell))).collect();
            println!("{name:20}{row}");
        }
    }
    ExitCode::SUCCESS
}
