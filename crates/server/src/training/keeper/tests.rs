//! The kept samples, and the effect of failures.

use std::sync::Arc;

use collie_env::{Fault, SimClock, SimFiles};
use collie_samples::{SampleDir, sample_of_unit};

use super::*;

struct Bench {
    env: Env,
    disk: SimFiles,
    clock: Arc<SimClock>,
}

impl Bench {
    fn new() -> Self {
        let (mut env, disk) = Env::simulated(7);
        let clock = Arc::new(SimClock::new());
        env.clock = clock.clone();
        Self { env, disk, clock }
    }

    fn keeper(&self) -> Keeper {
        Keeper::new(&self.env, "/data".as_ref(), Origin::unknown("n1"), SinkOptions::default())
    }

    /// Returns every row of unit 9 in files.
    fn rows(&self) -> Vec<SampleRow> {
        let dir = SampleDir::new(self.env.files.clone(), "/data".as_ref());
        let names = dir.list().unwrap();
        names.iter().filter(|name| name.unit == 9).flat_map(|name| dir.read(name).unwrap().rows).collect()
    }
}

/// Goal: TRAIN-2 up to the file: of frequent calls few are kept, of rare ones all, and each carries its total
/// probability, so that the weights add up to the number of calls. Method: twenty thousand calls of one kind, a hundred
/// of another, each drawn with probability one half.
#[test]
fn frequent_calls_are_thinned_and_carry_it() {
    let bench = Bench::new();
    let mut keeper = bench.keeper();
    let taken = |key_bytes| {
        let mut sample = sample_of_unit(9, 500);
        (sample.p, sample.features[0]) = (0.5, key_bytes);
        sample
    };
    let kept = keeper.take(&vec![taken(8); 10_000], &[]).len() + keeper.take(&vec![taken(4096); 50], &[]).len();
    keeper.finish();
    let rows = bench.rows();
    assert_eq!((rows.len(), keeper.kept().by_unit[9]), (kept, u64::try_from(kept).unwrap()));
    let weight = |key_bytes: u32| {
        let of_kind = rows.iter().filter(|row| row.sample.features[0] == key_bytes);
        of_kind.fold((0, 0.0), |(count, sum), row| (count + 1, sum + 1.0 / f64::from(row.sample.p)))
    };
    let ((frequent, calls), rare) = (weight(8), weight(4096));
    // 200 (1 + ln(10,000 / 200)).
    assert!((700..1300).contains(&frequent), "{frequent}");
    assert!((calls - 20_000.0).abs() < 3000.0, "{calls}");
    assert_eq!(rare, (50, 100.0));
}

/// Goal: K2: a failing or full disk stops collection with its reason, and nothing else; once it works again, samples
/// are kept again. Method: a write that fails; a minute later.
#[test]
fn a_disk_that_fails_stops_collection_with_its_reason() {
    let bench = Bench::new();
    let mut keeper = bench.keeper();
    keeper.take(&[sample_of_unit(9, 500)], &[]);
    bench.disk.fail_call(bench.disk.calls() + 1, Fault::Enospc);
    keeper.finish();
    let SinkState::Stopped { reason } = keeper.state().clone() else { panic!("it was not written") };
    assert!(reason.contains("/data"), "{reason}");
    assert_eq!(keeper.take(&[sample_of_unit(9, 500)], &[]).len(), 1, "models and people see it all the same");
    assert_eq!((keeper.kept().written_rows, keeper.kept().lost_rows), (0, 2));
    bench.clock.advance_ns(61_000_000_000);
    keeper.tick(0);
    assert_eq!(*keeper.state(), SinkState::Collecting);
    keeper.take(&[sample_of_unit(9, 500)], &[]);
    keeper.finish();
    assert_eq!(bench.rows().len(), 1);
}

/// Goal: the footer of a file names the configuration under which its samples were taken. Method: a sample before a
/// change and one after.
#[test]
fn files_say_under_which_configuration_they_were_made() {
    let bench = Bench::new();
    let mut keeper = bench.keeper();
    keeper.tick(5);
    keeper.take(&[sample_of_unit(9, 500)], &[ContextRow::default()]);
    keeper.tick(6);
    keeper.take(&[sample_of_unit(9, 500)], &[]);
    keeper.finish();
    let dir = SampleDir::new(bench.env.files.clone(), "/data".as_ref());
    let of_unit = dir.list().unwrap().into_iter().filter(|name| name.unit == 9);
    let epochs: Vec<u64> = of_unit.map(|name| dir.read(&name).unwrap().footer.config_epoch).collect();
    assert_eq!(epochs, [5, 6]);
    assert!(dir.list().unwrap().iter().any(|name| name.unit == 0), "the context has a file of its own");
}
