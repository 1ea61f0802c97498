//! Packages in the incoming folder.

use collie_env::Env;
use collie_train::{LabelId, UnitId, model::sample_package};

use super::{
    super::fixture::{package, row_reads},
    *,
};

const SECOND_NS: u64 = 1_000_000_000;
const SHADOW: Duration = Duration::from_secs(10);

struct Bench {
    env: Env,
    models: Models,
    incoming: Incoming,
    now_ns: u64,
}

impl Bench {
    fn new() -> Self {
        let (env, _disk) = Env::simulated(1);
        let models = Models::new(env.files.clone(), "/data/models".into());
        let incoming = Incoming::new(env.files.clone(), &models);
        env.files.create_dir_all("/data/models/incoming".as_ref()).unwrap();
        Self { env, models, incoming, now_ns: 0 }
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let file = self.env.files.create(&self.incoming.dir.join(name)).unwrap();
        file.write_at(0, bytes).unwrap();
    }

    /// Scans a second later.
    fn look(&mut self) -> Vec<(String, &'static str)> {
        self.now_ns += SECOND_NS;
        let changes = self.incoming.look(self.now_ns, SHADOW, &self.models);
        changes.into_iter().map(|change| (change.file, change.what)).collect()
    }

    fn take(&mut self, rows: &[SampleRow]) {
        self.incoming.take(&self.models.loaded(), rows);
    }

    fn active(&self) -> Option<u64> {
        self.models.load();
        self.models.loaded().hash(UnitId::new(9), LabelId::new(0))
    }

    fn names(&self) -> Vec<String> {
        self.env.files.list(&self.incoming.dir).unwrap()
    }
}

fn change(what: &'static str) -> Vec<(String, &'static str)> {
    vec![("a.package".to_owned(), what)]
}

/// Goal: I2: a package that holds is taken after its time and not before, and leaves the folder; until then it is shown
/// with its evaluation. Method: samples as it predicts them, too few at first; no model before.
#[test]
fn a_package_that_holds_is_taken_after_its_time() {
    let mut bench = Bench::new();
    let good = package(&row_reads(500, 1, 1));
    bench.put("a.package", &good.encode());
    assert_eq!(bench.look(), change("is judged"));
    bench.take(&row_reads(60, 1, 2));
    for _ in 0..20 {
        assert_eq!((bench.look(), bench.active()), (vec![], None));
    }
    bench.take(&row_reads(60, 1, 3));
    let [row] = &bench.incoming.rows()[..] else { panic!("one is judged") };
    assert_eq!((&*row.file, row.state), ("incoming/a.package", "shadow"));
    assert!(
        row.coverage.is_some_and(|share| share > 0.85) && row.error_seen.is_some_and(|error| error < 0.2),
        "{row:?}"
    );
    assert_eq!(bench.look(), change("is active"));
    assert_eq!((bench.active(), bench.names(), bench.incoming.rows()), (Some(good.hash()), vec![], vec![]));
}

/// Goal: I2, I3: a package that does not hold, or is worse than the one in use, is refused, stays there under another
/// name, and is not evaluated again. Method: a model of other work; one whose intervals are wide and whose predictions
/// are off, next to a good one.
#[test]
fn a_package_that_does_worse_is_refused() {
    let good = package(&row_reads(2000, 1, 1));
    let foreign = package(&row_reads(500, 3, 1));
    let mut worse = package(&row_reads(2000, 1, 4));
    // Half the cost for all calls, and wide intervals.
    worse.fitted = package(&row_reads(2000, 2, 4)).fitted;
    worse.fitted.quantile_ln = 5.0;
    for (bad, part) in [(foreign, "inside its intervals"), (worse, "error")] {
        let mut bench = Bench::new();
        bench.models.store(&good).unwrap();
        bench.active();
        bench.put("a.package", &bad.encode());
        assert_eq!(bench.look(), change("is judged"));
        bench.take(&row_reads(200, 1, 2));
        bench.now_ns += 20 * SECOND_NS;
        let changes = bench.incoming.look(bench.now_ns, SHADOW, &bench.models);
        let [Change { what: "is refused", why, .. }] = &changes[..] else { panic!("{changes:?}") };
        assert!(why.contains(part), "{why}");
        assert_eq!((bench.active(), bench.names()), (Some(good.hash()), vec!["a.package.refused".to_owned()]));
        assert_eq!(bench.look(), vec![]);
    }
}

/// Goal: I1: a file that is no package, or of another schema, is refused once it is complete, and one that is being
/// written is not. Method: a package in three parts, a second apart; a text; a package of another schema.
#[test]
fn what_is_no_package_is_refused_once_it_is_whole() {
    let mut bench = Bench::new();
    let bytes = package(&row_reads(200, 1, 1)).encode();
    bench.put("a.package", &bytes[..100]);
    assert_eq!(bench.look(), vec![]);
    let file = bench.env.files.open(&bench.incoming.dir.join("a.package"), Access::ReadWrite).unwrap();
    file.write_at(100, &bytes[100..200]).unwrap();
    assert_eq!(bench.look(), vec![]);
    file.write_at(200, &bytes[200..]).unwrap();
    assert_eq!(bench.look(), change("is judged"));

    for bytes in [b"no package".to_vec(), sample_package(false).encode()] {
        let mut bench = Bench::new();
        bench.put("a.package", &bytes);
        assert_eq!((bench.look(), bench.look()), (vec![], change("is refused")));
        assert_eq!(bench.names(), ["a.package.refused"]);
    }
}
