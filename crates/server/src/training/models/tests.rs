//! Models in use, shown and refused.

use collie_env::Env;
use collie_train::model::sample_package;

use super::{
    super::fixture::{package, row_reads},
    *,
};

const READ: UnitId = UnitId::new(9);
const TIME: LabelId = LabelId::new(0);

fn models(env: &Env) -> Models {
    Models::new(env.files.clone(), PathBuf::from("/data/models"))
}

fn put(env: &Env, name: &str, bytes: &[u8]) {
    env.files.create_dir_all("/data/models".as_ref()).unwrap();
    env.files.create(&Path::new("/data/models").join(name)).unwrap().write_at(0, bytes).unwrap();
}

/// Goal: TRAIN-11: a package of this program's schema is used and shown with its description; one that is damaged, too
/// long, of another schema, or under another package's name is refused with the reason, which is reported once; a file
/// of another kind is ignored. Method: one of each, loaded twice; no folder at all.
#[test]
fn packages_are_used_or_refused() {
    let (env, _disk) = Env::simulated(1);
    let (models, judge) = (models(&env), Judge::default());
    assert_eq!((models.load(), models.rows(&judge)), ((0, vec![]), vec![]));
    let good = package(&row_reads(200, 1, 1));
    models.store(&good).unwrap();
    let (bytes, foreign) = (good.encode(), sample_package(true));
    put(&env, "ou=10-label=0.package", &bytes[..bytes.len() - 1]);
    put(&env, "ou=11-label=0.package", &vec![0; usize::try_from(PACKAGE_BYTES_MAX).unwrap() + 1]);
    put(&env, "ou=12-label=0.package", &bytes);
    put(&env, "ou=13-label=0.package", &foreign.encode());
    put(&env, "ou=16-label=0.package-new", &bytes);
    let (count, refused) = models.load();
    let files: Vec<&str> = refused.iter().map(|refused| &*refused.file).collect();
    let expected = [10, 11, 12, 13].map(|unit| format!("ou={unit}-label=0.package"));
    assert_eq!((count, files), (1, expected.iter().map(|name| &**name).collect()));
    assert!(refused[2].why.contains("ou=09-label=0.package"), "{refused:?}");
    assert!(refused[3].why.contains("schema"), "{refused:?}");
    assert_eq!(models.load(), (1, vec![]), "told once");

    let loaded = models.loaded();
    assert_eq!((loaded.hash(READ, TIME), loaded.rows()), (Some(good.hash()), 200));
    let rows = models.rows(&judge);
    assert_eq!(rows.iter().map(|row| row.state).collect::<Vec<_>>(), [&["active"][..], &["refused"; 4]].concat());
    let model = rows[0].model.as_ref().expect("it is a package");
    assert_eq!((model.unit, model.label), (Some("ROW_READ"), Some("elapsed_ns")));
    assert_eq!((model.hash, model.rows), (good.hash(), 200));
    assert_eq!(model.trained.0, 1_700_000_000_000_000 - EPOCH_2000_US);
    assert!(rows[1..].iter().all(|row| row.refused.is_some()), "{rows:?}");
    assert!(rows[3].model.is_some() && rows[1].model.is_none());
}

/// Goal: a prediction is that of the package, with its interval, and there is none for calls that the model does not
/// know. Method: a call as in training; another number of features, one far outside, a label and a unit without a
/// model.
#[test]
fn predictions_are_those_of_the_package() {
    let good = package(&row_reads(500, 1, 1));
    let loaded = super::super::fixture::loaded_with(std::slice::from_ref(&good));
    let call = [8.0, 100.0, 10.0, 1.0];
    let (value, low, high) = loaded.predict(READ, TIME, &call).expect("it is known");
    assert!((500.0..700.0).contains(&value) && low < value && value < high, "{low} {value} {high}");
    assert_eq!(value, good.predict(&call).unwrap().value);
    assert_eq!(loaded.predict(READ, TIME, &call[..3]), None);
    assert_eq!(loaded.predict(READ, TIME, &[8.0, 100.0, 1e6, 1.0]), None, "it has seen nothing like it");
    assert_eq!(loaded.predict(READ, LabelId::new(1), &call), None);
    assert_eq!(loaded.predict(UnitId::new(13), TIME, &call), None);
}

/// Goal: MO2: a caller that holds a set of models keeps it when another replaces it, and a stored package is in use
/// only after a load. Method: a package, loaded; another in its place.
#[test]
fn models_are_exchanged_whole() {
    let (env, _disk) = Env::simulated(1);
    let models = models(&env);
    let (first, second) = (package(&row_reads(200, 1, 1)), package(&row_reads(200, 2, 2)));
    models.store(&first).unwrap();
    models.load();
    let held = models.loaded();
    models.store(&second).unwrap();
    assert_eq!(models.loaded().hash(READ, TIME), Some(first.hash()));
    assert_eq!(models.rows(&Judge::default())[0].state, "unused");
    models.load();
    assert_eq!((held.hash(READ, TIME), models.loaded().hash(READ, TIME)), (Some(first.hash()), Some(second.hash())));
}
