//! Operating units of statements, measured. The sampler is the process's, so the tests beside this one give samples as well: what is
//! asked is whether those of this one's statements are there.

use collie_engine::Options;
use collie_env::{Clock as _, Env, RealClock};
use collie_obs::{Batch, Drain, MEASURED_IN, RateTable, Sample, Situation, UNITS, publish};

use super::{Database, following::tests::ask, settings::Settings};

/// Units of statements.
const OF_SQL: std::ops::RangeInclusive<u8> = 14..=19;

fn now_ns() -> u64 {
    RealClock.now_ns()
}

/// Goal: every unit of statements that the document calls measured gives samples with the statement's numbers. Method: every call
/// measured; statements of each kind, one prepared and bound.
#[test]
fn every_measured_unit_of_statements_gives_samples() {
    const TEXT: &str = "UPDATE t SET v = v || $1 WHERE id = $2";
    let directory = tempfile::tempdir().unwrap();
    let (database, _) =
        Database::open(directory.path(), Options::small(), Env::real(), Settings::default(), &mut |_| ()).unwrap();
    let mut session = database.connect("collie", "test", None).unwrap();
    let mut drain = Drain::open(&now_ns).expect("nobody else drains");
    assert!(publish(&RateTable::all(1.0)));
    assert!(ask(&mut session, "CREATE TABLE t (id int PRIMARY KEY, v text)").is_empty());
    assert!(ask(&mut session, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')").is_empty());
    assert_eq!(ask(&mut session, "SELECT count(*) FROM t, t u"), ["9"]);
    assert!(ask(&mut session, "DELETE FROM t WHERE id > 1").is_empty());
    session.parse("s", TEXT, &[]).unwrap();
    let values = [Some(&b"more"[..]), Some(&b"1"[..])];
    session.bind("", "s", values.into_iter(), |_| 0, Vec::new()).unwrap();
    publish(&RateTable::off());
    let mut batch = Batch::new();
    drain.drain(now_ns(), Situation::default(), &mut batch);

    for (unit, place) in UNITS.iter().zip(MEASURED_IN).filter(|(unit, _)| OF_SQL.contains(&unit.id)) {
        let found = batch.samples.iter().filter(|sample| sample.ou == unit.id).count();
        assert_eq!(found > 0, !place.is_empty(), "{}: {found} samples, measured in {place:?}", unit.name);
    }
    let has = |unit: u8, is: &dyn Fn(&Sample) -> bool| {
        assert!(batch.samples.iter().any(|sample| sample.ou == unit && is(sample)), "unit {unit}");
    };
    let text_bytes = u32::try_from(TEXT.len()).unwrap();
    has(14, &|parsed| parsed.features[0] == text_bytes && parsed.features[1] > 8);
    has(15, &|bound| bound.features[..3] == [2, 5, 1]);
    has(16, &|planned| planned.features[0] == 1);
    has(17, &|run| run.features[0] == 1 && run.features[2] == 3);
    has(17, &|run| run.features[0] == 3 && run.features[2] == 2);
}
