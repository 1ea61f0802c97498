//! Shared code for tests of copies of a database: copies that link and that do not, and databases in real directories.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use collie_base::CfId;
use collie_engine::{CheckpointOptions, CopyProgress, Db, Env};

use super::{all, begin, tiny};

/// The rows of a family.
pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// The copy shares its tables with the database.
pub(crate) const LINK: CheckpointOptions = CheckpointOptions { copy: false };
/// The copy shares nothing.
pub(crate) const COPY: CheckpointOptions = CheckpointOptions { copy: true };

/// A progress callback that lets the copy continue.
pub(crate) fn go_on(_: &CopyProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Opens the database in `dir` with [`tiny`] settings.
pub(crate) fn open(dir: &Path) -> Db {
    open_in(dir, Env::real())
}

/// Opens the database in `dir` in an environment.
pub(crate) fn open_in(dir: &Path, env: Env) -> Db {
    Db::open(dir, tiny(), env, &mut |_| ()).unwrap().0
}

/// Returns the rows of a family.
pub(crate) fn rows(db: &Db, cf: CfId) -> Rows {
    let mut session = db.session().unwrap();
    begin(&mut session);
    all(&session, &db.family(cf))
}
