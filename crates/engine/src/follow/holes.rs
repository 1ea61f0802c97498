//! `Holes`: the families that lack rows on a replica, because the primary wrote these without its log.
//!
//! The file `holes` of the data directory, replaced whole; frame ([`frame`]) `COLLIEHO`, version 1:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 16 | 4 | number of families |
//! | 20 | 12 each | family u32, position of its first UNLOGGED record u64; ascending |
//!
//! A directory without the file has no holes. A base backup, which has those rows, begins without the file.
//!
//! # Invariants
//! - H1. A hole is on disk before anything behind its record is applied: the record itself is released with the log,
//!   and the hole stays.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::path::{Path, PathBuf};

use collie_base::codec::DecodeError;
use collie_base::{CfId, Lsn, Map};
use collie_env::Env;
use parking_lot::Mutex;

use crate::EngineError;
use crate::dir::frame;
use crate::dir::log_place::{read_framed, write_framed};

const NAME: &str = "holes";
const MAGIC: &[u8; 8] = b"COLLIEHO";
const VERSION: u32 = 1;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Holes {
    env: Env,
    dir: PathBuf,
    since: Mutex<Map<CfId, Lsn>>,
}

impl Holes {
    /// Reads the holes of the directory `dir`.
    ///
    /// # Errors
    /// If the file is damaged, of a newer version, or cannot be read.
    pub(crate) fn read(env: &Env, dir: &Path) -> Result<Self, EngineError> {
        let found = read_framed(env, dir.join(NAME), |bytes| {
            let (_version, mut fields) = frame::decode(MAGIC, VERSION, bytes)?;
            let count = fields.u32()?;
            let mut since = Map::default();
            for _ in 0..count {
                let (cf, lsn) = (CfId::new(fields.u32()?), Lsn::new(fields.u64()?));
                if since.keys().any(|before| *before >= cf) {
                    return Err(DecodeError { what: "order of families" }.into());
                }
                since.insert(cf, lsn);
            }
            fields.finish()?;
            Ok(since)
        })?;
        Ok(Self { env: env.clone(), dir: dir.to_owned(), since: Mutex::new(found.unwrap_or_default()) })
    }

    /// Returns the families with holes, each with the position from which on rows may be missing.
    pub(crate) fn all(&self) -> Map<CfId, Lsn> {
        self.since.lock().clone()
    }

    /// Notes that rows of these families may be missing from `since` on. A family that already has a hole keeps its
    /// earlier position.
    ///
    /// # Durability
    /// On disk on return (H1).
    ///
    /// # Errors
    /// Those of the file system; nothing was noted then.
    pub(crate) fn note(&self, families: &[CfId], since: Lsn) -> Result<(), EngineError> {
        let mut known = self.since.lock();
        let mut all = known.clone();
        for cf in families {
            all.entry(*cf).or_insert(since);
        }
        let count = u32::try_from(all.len()).expect("families have ids of 32 bits");
        let mut sorted: Vec<(CfId, Lsn)> = all.iter().map(|(cf, since)| (*cf, *since)).collect();
        sorted.sort_unstable();
        let mut fields = count.to_le_bytes().to_vec();
        for (cf, since) in sorted {
            fields.extend_from_slice(&cf.get().to_le_bytes());
            fields.extend_from_slice(&since.get().to_le_bytes());
        }
        write_framed(&self.env, &self.dir, NAME, &frame::encode(MAGIC, VERSION, &fields))?;
        *known = all;
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use collie_env::Fault;

    use super::*;

    /// Goal: H1: noted holes are read after a power cut, with the first position of each family; a file that is damaged
    /// or out of order is refused, and a missing file means no holes. Method: two notes, a disk that refuses a third, a
    /// power cut, a flipped bit, a handmade file.
    #[test]
    fn holes_are_read_as_noted_and_refused_when_damaged() {
        let (env, disk) = Env::simulated(5);
        let dir = Path::new("/db");
        env.files.create_dir_all(dir).unwrap();
        let holes = Holes::read(&env, dir).unwrap();
        assert!(holes.all().is_empty());
        holes.note(&[CfId::new(9), CfId::new(7)], Lsn::new(5000)).unwrap();
        holes.note(&[CfId::new(7), CfId::new(8)], Lsn::new(6000)).unwrap();
        let expected: Map<CfId, Lsn> =
            [(7, 5000), (8, 6000), (9, 5000)].map(|(cf, at)| (CfId::new(cf), Lsn::new(at))).into_iter().collect();
        assert_eq!(holes.all(), expected);
        disk.fail_call(disk.calls() + 1, Fault::Eio);
        assert!(holes.note(&[CfId::new(10)], Lsn::new(7000)).is_err());
        assert_eq!(holes.all(), expected);
        let disk = disk.power_cut(1);
        let env = Env::over(disk.clone(), 6);
        assert_eq!(Holes::read(&env, dir).unwrap().all(), expected);
        disk.flip(&dir.join(NAME), 21, 1).unwrap();
        assert!(matches!(Holes::read(&env, dir), Err(EngineError::BadControlFile { .. })));
        let twice = [&2_u32.to_le_bytes()[..], &[7, 0, 0, 0], &[1; 8], &[7, 0, 0, 0], &[1; 8]].concat();
        write_framed(&env, dir, NAME, &frame::encode(MAGIC, VERSION, &twice)).unwrap();
        assert!(matches!(Holes::read(&env, dir), Err(EngineError::BadControlFile { .. })));
    }
}
