//! The Rust side of the tests in `python/tests`: writes files and makes predictions as a server does.
//!
//! ```text
//! fleet write DIR              writes samples of four units of three nodes, by a known rule, under DIR/<node>
//! fleet expected DIR           prints the rows of DIR as lines: unit, number of the file, time, fields of the sample
//! fleet predict PACKAGE IN OUT predicts rows of little-endian f64 features in IN; OUT gets value, low, high, clamped
//! ```
#![expect(clippy::unwrap_used, reason = "a program of tests: what fails is printed and ends it")]

use std::{fs, path::Path, sync::Arc};

use collie_env::{Env, Random as _, SimClock, SimRandom};
use collie_obs::Sample;
use collie_samples::{Constants, Facts, Hardware, Origin, SampleDir, SampleSink, SinkOptions, sample_of_unit};
use collie_train::model::Package;

/// The units with samples: a flush with several labels, a read of a row, a scan (linear), a compaction (n log n).
const UNITS: [u8; 4] = [2, 9, 13, 22];
const ROWS: u64 = 1500;

fn write(dir: &Path) {
    for (number, node) in (1_u32..).zip(["n1", "n2", "n3"]) {
        let (mut env, _) = Env::simulated(u64::from(number));
        env.files = Env::real().files;
        let clock = Arc::new(SimClock::new());
        env.clock = clock.clone();
        let data = dir.join(node);
        fs::create_dir_all(&data).unwrap();
        let speed = f64::from(number);
        let facts = Facts { cpu: format!("test {number}"), cores: number, ..Facts::default() };
        let hardware = Hardware { facts, constants: Constants { integer_ns: speed, ..Constants::default() } };
        let origin = Origin { cluster: "test".to_owned(), hardware, ..Origin::unknown(node) };
        let mut sink = SampleSink::open(&env, &data, origin, SinkOptions::default()).unwrap();
        let chance = SimRandom::new(u64::from(number));
        for row in 0..ROWS {
            for unit in UNITS {
                sink.add(&[sample(unit, number, &chance)]);
            }
            clock.advance_ns(100_000_000);
            if row % 500 == 499 {
                sink.finish();
            }
        }
        assert_eq!(sink.dropped_rows(), 0, "{:?}", sink.state());
    }
}

/// Returns a sample whose label is a known function of its features and the node's slowness, with noise of up to 5 %.
fn sample(unit: u8, speed: u32, chance: &SimRandom) -> Sample {
    let draw = |below: u64| u32::try_from(chance.u64() % below).unwrap();
    let features = [1 + draw(4000), draw(300), 1 + draw(8), draw(2), draw(1000), draw(2), 0, 0];
    let exact = match unit {
        2 => 20_000 + u64::from(features[0]) * 3 + u64::from(features[4]),
        9 => 100 + 30 * u64::from(features[2]),
        13 => 40 * u64::from(features[0]) + 10 * u64::from(features[2]),
        _ => 2 * u64::from(features[0]) * u64::from(33 - features[0].leading_zeros()),
    };
    let noisy = exact * u64::from(speed) * u64::from(95 + draw(11)) / 100;
    let mut sample = sample_of_unit(unit, noisy);
    sample.labels[1..].fill(noisy / 2);
    let declared = collie_obs::UNITS.iter().find(|declared| declared.id == unit).unwrap();
    sample.features[..declared.features.len()].copy_from_slice(&features[..declared.features.len()]);
    sample.features[declared.features.len()..].fill(0);
    sample.labels[declared.labels.len()..].fill(0);
    sample.p = [0.001, 0.5, 1.0][usize::try_from(draw(3)).unwrap()];
    sample.lsn = u64::MAX - u64::from(draw(1000));
    sample
}

fn expected(dir: &Path) {
    let samples = SampleDir::new(Env::real().files, dir);
    for name in samples.list().unwrap() {
        for row in samples.read(&name).unwrap().rows {
            let Sample { source, flags, thread, calls, p, ctx, start, lsn, features, labels, .. } = row.sample;
            let declared = collie_obs::UNITS.iter().find(|declared| declared.id == name.unit).unwrap();
            print!(
                "{} {} {} {source} {flags} {thread} {calls} {p:?} {ctx} {start} {lsn}",
                name.unit, name.seq, row.time_us
            );
            features[..declared.features.len()].iter().for_each(|feature| print!(" {feature}"));
            labels[..declared.labels.len()].iter().for_each(|label| print!(" {label}"));
            println!();
        }
    }
}

fn predict(package: &Path, rows: &Path, out: &Path) {
    let bytes = fs::read(package).unwrap();
    let package = Package::decode(&bytes).unwrap();
    assert_eq!(package.encode(), bytes, "a package has one form, whoever writes it");
    let numbers: Vec<f64> = fs::read(rows)
        .unwrap()
        .chunks_exact(8)
        .map(|bytes| f64::from_bits(u64::from_le_bytes(bytes.try_into().unwrap())))
        .collect();
    let mut predicted = Vec::new();
    for row in numbers.chunks_exact(package.fitted.ranges.len()) {
        let prediction = package.predict(row).unwrap();
        let clamped = f64::from(u8::from(prediction.clamped));
        for number in [prediction.value, prediction.low, prediction.high, clamped] {
            predicted.extend_from_slice(&number.to_bits().to_le_bytes());
        }
    }
    fs::write(out, predicted).unwrap();
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["write", dir] => write(dir.as_ref()),
        ["expected", dir] => expected(dir.as_ref()),
        ["predict", package, rows, out] => predict(package.as_ref(), rows.as_ref(), out.as_ref()),
        _ => {
            eprintln!("usage: fleet write DIR | expected DIR | predict PACKAGE IN OUT");
            std::process::exit(2);
        }
    }
}
