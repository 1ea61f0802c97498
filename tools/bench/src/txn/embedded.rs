//! `Embedded`: a database in this process, and the few operations that loads run on it.

use std::{path::Path, sync::Arc};

use collie_engine::{Basis, Db, Env, Family, Insert, Isolation, Options, Outcome, Session, StatementKind, Write};

use crate::{Plan, Scratch, null_files::NullFiles};

/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 64;
/// Segment size on the disk that keeps nothing: large, so that changing to the next file is rare.
const SEGMENT_BYTES: u64 = 1 << 30;

/// An open database with one family.
pub(crate) struct Embedded {
    pub(crate) db: Db,
    pub(crate) family: Arc<Family>,
    /// Declared after `db`, so that its files are deleted after it is closed.
    _scratch: Option<Scratch>,
}

/// Returns the key of row `number`.
pub(crate) fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

impl Embedded {
    /// Opens a database whose log goes to a disk that keeps nothing.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn in_memory() -> anyhow::Result<Self> {
        let mut options = Options::default();
        options.log.segment_bytes = SEGMENT_BYTES;
        // Nothing is read back, and files without contents cost nothing.
        options.log.max_segments = 1 << 30;
        Self::open(Path::new("/db"), options, NullFiles::env(), None)
    }

    /// Opens a database on the disk under test, with the defaults.
    ///
    /// # Errors
    /// Those of the operating system and of the engine.
    pub(crate) fn on_disk(plan: &Plan) -> anyhow::Result<Self> {
        let scratch = Scratch::new(&plan.env, &plan.dir)?;
        let dir = scratch.path().join("db");
        let options = Options { log: crate::measures::disk_options(plan), ..Options::default() };
        Self::open(&dir, options, plan.env.clone(), Some(scratch))
    }

    fn open(dir: &Path, options: Options, env: Env, scratch: Option<Scratch>) -> anyhow::Result<Self> {
        let (db, _report) = Db::open(dir, options, env, &mut |_| ())?;
        let family = db.family(db.create_family());
        Ok(Self { db, family, _scratch: scratch })
    }

    /// Inserts rows 0 to `rows`.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn fill(&self, rows: u64) -> anyhow::Result<()> {
        let mut session = self.db.session()?;
        for first in (0..rows).step_by(1000) {
            begin(&mut session, Isolation::ReadCommitted)?;
            for number in first..rows.min(first + 1000) {
                let inserted = session.insert(&self.family, &key(number), &[0x5A; VALUE_BYTES])?;
                anyhow::ensure!(inserted == Insert::Done, "row {number} is there already");
            }
            session.commit(false)?.block()?;
        }
        Ok(())
    }
}

/// Begins a transaction and in it a statement that may write.
///
/// # Errors
/// Those of the engine.
pub(crate) fn begin(session: &mut Session, isolation: Isolation) -> anyhow::Result<()> {
    session.begin(isolation, false)?;
    Ok(session.begin_statement(StatementKind::Write)?)
}

/// Writes a row that no other session writes.
///
/// # Errors
/// Those of the engine; another session did write it.
pub(crate) fn update(session: &mut Session, family: &Family, number: u64) -> anyhow::Result<()> {
    let outcome = session.write(family, &key(number), Basis::Snapshot, Write::Put(&[0xA5; VALUE_BYTES]))?;
    anyhow::ensure!(outcome == Outcome::Done, "row {number}: {outcome:?}");
    Ok(())
}

/// Commits one row in its own transaction, without waiting for the disk.
///
/// # Errors
/// Those of [`update`] and of the commit.
pub(crate) fn update_alone(session: &mut Session, family: &Family, number: u64) -> anyhow::Result<()> {
    begin(session, Isolation::ReadCommitted)?;
    update(session, family, number)?;
    session.commit(false)?.block()?;
    Ok(())
}
