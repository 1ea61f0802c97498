//! `Audited`: a database whose rows can be read for the consistency conditions; `Reader`: its rows at one moment.

use collie_workload::{Scale, target::Target};

use super::books::{Books, Payments};

/// A consistent snapshot of the database, for as long as it is read.
pub(crate) trait Reader {
    fn items(&mut self) -> anyhow::Result<u64>;
    fn payments(&mut self) -> anyhow::Result<Payments>;
    fn books(&mut self, warehouse: u32) -> anyhow::Result<Books>;
}

/// A database whose rows can be checked.
pub(crate) trait Audited: Target {
    /// Returns the scale of the existing rows, as far as they show it; `None` without tables.
    fn holds(&self) -> anyhow::Result<Option<Scale>>;
    fn reader(&self) -> anyhow::Result<Box<dyn Reader + '_>>;
}
