//! Files of released versions stay readable: those under `tests/golden` were written once, and every later program
//! reads them.
//!
//! A new version of a unit adds files; it never changes these. `UPDATE_GOLDEN=1 cargo test -p collie-samples --test
//! golden` writes them if there are none.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};

use collie_env::Env;
use collie_obs::Sample;
use collie_samples::{
    Constants, Facts, FileName, Hardware, Origin, SampleDir, SampleSink, SinkOptions, sample_of_unit,
};

/// A flush with four labels, and a scan; `row` makes their samples.
const UNITS: [u8; 2] = [2, 13];
const ROWS: u32 = 40;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn row(unit: u8, number: u32) -> Sample {
    let declared = collie_obs::UNITS.iter().find(|declared| declared.id == unit).unwrap();
    let mut sample = sample_of_unit(unit, u64::MAX - u64::from(number));
    (sample.source, sample.flags, sample.thread, sample.calls) = (3, 2, 65_535, 16);
    (sample.p, sample.ctx, sample.start, sample.lsn) = (0.125, number, 1 << 40, 4096 + u64::from(number));
    sample.features = [0; 8];
    for (at, feature) in (0..).zip(&mut sample.features[..declared.features.len()]) {
        *feature = number * 10 + at;
    }
    for (at, label) in (1_u64..).zip(&mut sample.labels[1..declared.labels.len()]) {
        *label = u64::from(number) + at;
    }
    sample
}

fn write(into: &Path) {
    let (mut env, _) = Env::simulated(1);
    env.files = Env::real().files;
    let facts = Facts { cpu: "golden".to_owned(), threads: 2, ..Facts::default() };
    let hardware = Hardware { facts, constants: Constants { call_ns: 50.0, ..Constants::default() } };
    let origin = Origin { cluster: "c1".to_owned(), hardware, ..Origin::unknown("n1") };
    let options = SinkOptions { free_bytes_min: 0, ..SinkOptions::default() };
    let mut sink = SampleSink::open(&env, into, origin, options).unwrap();
    sink.set_config_epoch(3);
    for unit in UNITS {
        sink.add(&(0..ROWS).map(|number| row(unit, number)).collect::<Vec<_>>());
        sink.finish();
    }
    assert_eq!(sink.dropped_rows(), 0, "{:?}", sink.state());
}

/// Goal: a file that a released program wrote still reads the same. Method: the files in the tree are read and compared
/// row by row.
#[test]
fn released_files_stay_readable() {
    let dir = SampleDir::new(Env::real().files, &golden());
    if std::env::var_os("UPDATE_GOLDEN").is_some() && dir.list().unwrap().is_empty() {
        write(&golden());
    }
    let names = dir.list().unwrap();
    let expected =
        (1..).zip(UNITS).map(|(seq, unit)| FileName { day: 20_000_101, seq, node: "n1".to_owned(), unit, version: 1 });
    assert_eq!(names, expected.collect::<Vec<_>>());
    for name in &names {
        let file = dir.read(name).unwrap();
        let samples: Vec<Sample> = file.rows.iter().map(|row| row.sample).collect();
        assert_eq!(samples, (0..ROWS).map(|number| row(name.unit, number)).collect::<Vec<_>>());
        assert!(file.rows.iter().all(|row| row.time_us == 946_684_800_000_000));
        let footer = &file.footer;
        assert_eq!((footer.cluster.as_str(), footer.node.as_str(), footer.config_epoch), ("c1", "n1", 3));
        assert_ne!(footer.hardware_tag, 0);
    }
}
