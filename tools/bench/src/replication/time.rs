//! What is the delay over time? At four fifths of the primary's full rate, in several long runs. This is figure 5.2 of
//! the thesis, for comparison with PostgreSQL.

use collie_workload::Kind;

use super::PairSettings;
use super::floors::Floors;
use super::pair::{Pair, pairs};
use super::rate::{Watched, at_rate, delays, peak};
use super::watch::{Sample, Summary, prepare};
use crate::measures::per_s;
use crate::report::{Figure, Row, Section};

/// Percentage of the primary's full rate.
const PERCENT: f64 = 80.0;
/// A run is this many times longer than one of another question.
const LONGER: u32 = 3;
/// A sample is close to a delivery that ended at most this long before or after it.
const BESIDE_NS: u64 = 5_000_000;
/// Targets, in microseconds.
const MEAN_US: f64 = 1_000.0;
const P99_US: f64 = 5_000.0;

pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let long = PairSettings { time: settings.time * LONGER, ..settings.clone() };
    let mut section = Section::new(
        "time",
        format!(
            "how far behind is a replica over time? (TPC-C, {} warehouses, {PERCENT} % of flat out, begun by chance, commits on disk, \
             {} runs of {} s)",
            settings.warehouses,
            settings.courses,
            long.time.as_secs_f64()
        ),
    );
    let mut floors = Floors::new(&settings.plan)?;
    let pairs = pairs(settings, &mut section)?;
    let mut rates = Vec::new();
    for pair in &pairs {
        pair.load(settings)?;
        let _look = prepare(pair, settings)?;
        rates.push(peak(pair, settings)? * PERCENT / 100.0);
    }
    let mut all: Vec<Vec<Watched>> = pairs.iter().map(|_| Vec::new()).collect();
    for run in 0..settings.courses {
        floors.slice(&settings.plan, settings.time / 10)?;
        for ((pair, rate), all) in pairs.iter().zip(&rates).zip(&mut all) {
            settings.plan.say(&format!("{}: run {} of {}", pair.name(), run + 1, settings.courses));
            all.push(at_rate(pair, &long, run, *rate)?);
        }
    }
    for pair in &pairs {
        pair.check(settings, &mut section)?;
    }
    floors.rows(&mut section);
    for ((pair, rate), runs) in pairs.iter().zip(&rates).zip(&all) {
        section.rows.push(row(pair, *rate, runs));
    }
    Ok(section)
}

/// Splits the samples of a run by whether a delivery ended close to them.
fn by_delivery(of: &Watched) -> [Vec<Sample>; 2] {
    let mut ended: Vec<u64> = of.run.tally.deliveries_ns.iter().map(|ns| of.run.from_ns + ns).collect();
    ended.sort_unstable();
    let is_beside = |sample: &&Sample| {
        let first = ended.partition_point(|at_ns| at_ns + BESIDE_NS < sample.at_ns);
        ended.get(first).is_some_and(|at_ns| *at_ns <= sample.at_ns + BESIDE_NS)
    };
    let (beside, apart): (Vec<&Sample>, Vec<&Sample>) = of.samples.iter().partition(is_beside);
    [beside, apart].map(|part| part.into_iter().copied().collect())
}

fn row(pair: &Pair, asked: f64, runs: &[Watched]) -> Row {
    let case = format!("{PERCENT} % of flat out");
    let row = Row::new(pair.name(), case, "disk", pair.ring())
        .runs("asked_per_s", &[asked])
        .each("txn_per_s", runs, |of| per_s(of.run.tally.ended(), of.run.ns))
        .each("deliveries_per_s", runs, |of| per_s(of.run.tally.of(Kind::Delivery).latencies.count(), of.run.ns));
    let mut row = delays(row, &runs.iter().map(|of| &of.samples[..]).collect::<Vec<_>>());
    for (key, part) in [("seen_beside_delivery_us", 0), ("seen_apart_us", 1)] {
        let mean = |of: &Watched| Summary::of(by_delivery(of)[part].iter().map(|sample| sample.seen_us));
        let means: Vec<f64> = runs.iter().filter_map(|of| Some(mean(of)?.mean)).collect();
        row = match &means[..] {
            [] => row.figure(key, Figure::Absent("none")),
            means => row.runs(key, means),
        };
    }
    if pair.is_peer() {
        return row;
    }
    for (what, mean, p99) in [
        ("by the primary's clock", "delay_mean_us", "delay_p99_us"),
        ("as a client sees it", "seen_mean_us", "seen_p99_us"),
    ] {
        let below = |key, limit| row.median(key).is_some_and(|value| value <= limit);
        let met = [below(mean, MEAN_US), below(p99, P99_US)];
        row = row.target(format!("mean <= 1 ms {what}"), met[0]).target(format!("p99 <= 5 ms {what}"), met[1]);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use collie_workload::Run;

    fn watched(samples: &[(u64, f64)], deliveries_ms: &[u64]) -> Watched {
        let mut run = Run { from_ns: 1_000, ns: 3_000_000_000, ..Run::default() };
        run.tally.deliveries_ns = deliveries_ms.iter().map(|ms| ms * 1_000_000).collect();
        let sample = |&(ms, seen_us): &(u64, f64)| Sample { at_ns: 1_000 + ms * 1_000_000, behind: None, seen_us };
        Watched { run, samples: samples.iter().map(sample).collect() }
    }

    /// Goal: samples close to a delivery are separated from the others. Method: samples at its moment, 5 ms before and
    /// after it, and further off; no delivery.
    #[test]
    fn samples_beside_a_delivery_are_told_apart() {
        let of = watched(&[(1, 0.0), (5, 1.0), (10, 2.0), (15, 3.0), (16, 4.0)], &[10]);
        let seen = |of: &Watched| by_delivery(of).map(|part| part.iter().map(|s| s.seen_us).collect::<Vec<_>>());
        assert_eq!(seen(&of), [vec![1.0, 2.0, 3.0], vec![0.0, 4.0]]);
        assert_eq!(seen(&watched(&[(1, 0.0)], &[])), [vec![], vec![0.0]]);
    }
}
