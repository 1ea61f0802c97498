//! `Following`: an open database as the replay of a log uses it.

use std::path::PathBuf;
use std::sync::Arc;

use collie_base::{CfId, Lsn};
use collie_store::{Family, Row};
use parking_lot::Mutex;

use crate::dir::control::{Control, History};
use crate::families::Families;
use crate::flush::Base;
use crate::follow::followed::{CatalogRows, Followed};
use crate::follow::lanes::Target;
use crate::follow::record::RecordAt;
use crate::follow::record::VisitRecord;
use crate::gc::garbage::Garbage;
use crate::log::large::LargeTransactions;
use crate::redo::Incarnation;
use crate::replica::live::Follow;
use crate::shared::Shared;
use crate::{EngineError, QuorumNote};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) shared: Arc<Shared>,
    pub(crate) followed: Arc<Followed>,
    pub(crate) dir: PathBuf,
    /// The identity of the directory, with the histories so far.
    pub(crate) control: Mutex<Control>,
}

impl Following {
    fn base(&self) -> &Base {
        self.shared.base().expect("a replica is opened with levels")
    }
}

impl Target for Following {
    fn families(&self) -> &Families {
        &self.shared.families
    }

    fn garbage(&self) -> &Garbage {
        &self.shared.garbage
    }

    fn prune(&self, family: &Family, row: &Row) {
        self.shared.prune(family, row);
    }

    fn applied(&self, _: Lsn) {
        self.shared.shown_moved(&self.followed);
    }

    fn stopped(&self) {
        self.followed.shown.close();
    }

    fn now_ns(&self) -> u64 {
        self.shared.env.clock.now_ns()
    }
}

impl Follow for Following {
    fn large(&self) -> &LargeTransactions {
        &self.base().large
    }

    fn read_back(&self, first: RecordAt, last: RecordAt, visit: &mut VisitRecord<'_>) -> Result<(), EngineError> {
        self.followed.own.read_back(first, last, visit)
    }

    fn catalog_changed(&self, end: Lsn, rows: CatalogRows) {
        self.followed.catalog_changed(end, rows);
    }

    fn history_begins(&self, start: Lsn, previous_end: Lsn, incarnation: &Incarnation) -> Result<(), EngineError> {
        let mut control = self.control.lock();
        let history = History::of(start, previous_end, incarnation);
        if control.note_history(history) {
            self.followed.note_history(history.into());
            control.write(&self.shared.env, &self.dir)?;
        }
        Ok(())
    }

    fn note_holes(&self, families: &[CfId], since: Lsn) -> Result<(), EngineError> {
        self.followed.holes.note(families, since)
    }

    fn xid_limit(&self, limit: collie_base::Xid) {
        self.followed.note_xid_limit(limit);
    }

    fn marked(&self, wall_us: i64, end: Lsn) {
        self.followed.time.mark(wall_us, end);
    }

    fn quorum_noted(&self, lsn: Lsn, note: QuorumNote) {
        self.shared.quorum.note(lsn, note);
    }

    fn note_dropped(&self, cf: CfId, end: Lsn) {
        self.shared.dropped.note(cf, end);
    }

    fn free_dropped(&self) {
        self.shared.free_dropped();
    }
}
