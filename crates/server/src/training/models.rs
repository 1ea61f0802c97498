//! The packages of models in a server's directory: `models/ou=13-label=0.package` and so on.
//!
//! They are read when somebody looks: nothing predicts by them yet.

use std::path::Path;

use collie_env::{Files, read_all};
use collie_sql::catalog::system::{Model, ModelRow};
use collie_train::model::Package;

use super::units::name_of;
use crate::replication::EPOCH_DIFFERENCE;

/// How names of packages end.
const ENDING: &str = ".package";

/// A package of the largest model is 130 KiB.
const PACKAGE_BYTES_MAX: u64 = 4 << 20;

/// Returns the packages in `dir`, by name; none if it cannot be read. What cannot be decoded is there with the reason (RT11).
pub(super) fn all(dir: &Path, files: &dyn Files) -> Vec<ModelRow> {
    let names = files.list(dir).unwrap_or_default();
    let row = |file: String| {
        let read = read_all(files, &dir.join(&file), PACKAGE_BYTES_MAX).map_err(|error| error.to_string());
        match read.and_then(|bytes| Package::decode(&bytes).map_err(|error| error.to_string())) {
            Ok(package) => ModelRow { file, model: Some(model(&package)), refused: None },
            Err(why) => ModelRow { file, model: None, refused: Some(why) },
        }
    };
    names.into_iter().filter(|name| name.ends_with(ENDING)).map(row).collect()
}

fn model(package: &Package) -> Model {
    let fitted = &package.fitted;
    let at = |us: u64| i64::try_from(us).unwrap_or(i64::MAX).saturating_sub(EPOCH_DIFFERENCE);
    Model {
        unit_id: package.unit.get(),
        unit: name_of(package.unit),
        label: package.label.get(),
        schema_version: package.schema_version,
        kind: fitted.model.kind(),
        rows: fitted.rows,
        effective_rows: fitted.effective_rows,
        error: fitted.error(),
        trained: (at(fitted.window_us.0), at(fitted.window_us.1)),
        hash: package.hash(),
    }
}

#[cfg(test)]
mod tests {
    use collie_env::Env;
    use collie_train::model::sample_package;

    use super::*;

    /// Goal: a package is shown with what it says of itself, one that is damaged with the reason, and nothing else is. Method: a whole one,
    /// one without its last byte, one that is too long, a file of another kind; and no folder at all.
    #[test]
    fn packages_are_shown_as_they_are() {
        let (env, _disk) = Env::simulated(1);
        let dir = Path::new("/data/models");
        assert_eq!(all(dir, &*env.files), []);
        env.files.create_dir_all(dir).unwrap();
        let put = |name: &str, bytes: &[u8]| env.files.create(&dir.join(name)).unwrap().write_at(0, bytes).unwrap();
        let package = sample_package(true);
        let bytes = package.encode();
        put("ou=13-label=0.package", &bytes);
        put("ou=14-label=0.package", &bytes[..bytes.len() - 1]);
        put("ou=15-label=0.package", &vec![0; usize::try_from(PACKAGE_BYTES_MAX).unwrap() + 1]);
        put("ou=16-label=0.package-new", &bytes);
        let rows = all(dir, &*env.files);
        let [whole, cut, long] = &rows[..] else { panic!("{rows:?}") };
        let model = whole.model.as_ref().expect("it is a package");
        assert_eq!((model.unit, model.label, model.kind, model.hash), (Some("SCAN"), 0, "trees", package.hash()));
        assert_eq!((model.rows, model.trained.0), (60, 1_700_000_000_000_000 - EPOCH_DIFFERENCE));
        assert_eq!(whole.refused, None);
        for (row, file) in [(cut, "ou=14-label=0.package"), (long, "ou=15-label=0.package")] {
            assert_eq!((&*row.file, &row.model), (file, &None));
            assert!(row.refused.is_some(), "{file}");
        }
    }
}
