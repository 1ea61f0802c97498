//! What the tests of this crate share.

pub(crate) use crate::lab::lab_options as tiny;
use crate::{Log, Lsn};

/// Returns what every record of the log holds.
pub(crate) fn bodies(log: &Log) -> Vec<Vec<u8>> {
    log.read(Lsn::ZERO).map(|record| record.unwrap().body).collect()
}
