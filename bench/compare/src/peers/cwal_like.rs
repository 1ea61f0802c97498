//! `CwalLike`: the plain log: one mutex, one write per record, one sync per commit, a file that grows.
//!
//! A record has length, body and checksum, as in CWal; unlike CWal, it syncs the descriptor that was written to.

use std::{path::Path, sync::Arc};

use collie_base::checksum::crc32c;
use collie_env::{Env, File};
use parking_lot::Mutex;

use super::{Appender, Level, Peer};

#[derive(Debug)]
struct State {
    end: u64,
    buffer: Vec<u8>,
}

/// The log.
#[derive(Debug)]
pub(crate) struct CwalLike {
    file: Arc<dyn File>,
    state: Mutex<State>,
}

impl CwalLike {
    /// Makes its file in `dir`.
    pub(crate) fn create(env: &Env, dir: &Path) -> anyhow::Result<Self> {
        let file = env.files.create(&dir.join("cwal"))?;
        Ok(Self { file, state: Mutex::new(State { end: 0, buffer: Vec::new() }) })
    }
}

impl Peer for CwalLike {
    fn appender(&self, _thread: usize, level: Level) -> anyhow::Result<Appender<'_>> {
        Ok(Box::new(move |record| {
            let mut state = self.state.lock();
            let State { end, buffer } = &mut *state;
            buffer.clear();
            buffer.extend_from_slice(&(record.len() as u64).to_le_bytes());
            buffer.extend_from_slice(record);
            buffer.extend_from_slice(&crc32c(record).to_le_bytes());
            self.file.write_at(*end, buffer)?;
            *end += buffer.len() as u64;
            if level == Level::Disk {
                self.file.sync_data()?;
            }
            Ok(())
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: it is an honest peer: every acknowledged record is synced, in order. Method: 3 threads, then every record
    /// of the file on a simulated disk after a power cut.
    #[test]
    fn every_acknowledged_record_is_in_the_file() {
        let (env, disk) = Env::simulated(1);
        env.files.create_dir_all("/c".as_ref()).unwrap();
        let log = CwalLike::create(&env, "/c".as_ref()).unwrap();
        env.files.sync_dir("/c".as_ref()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3_u8 {
                let log = &log;
                scope.spawn(move || {
                    let mut append = log.appender(usize::from(thread), Level::Disk).unwrap();
                    (0..20_u8).for_each(|number| append(&[thread, number]).unwrap());
                });
            }
        });
        let bytes = collie_env::read_all(&disk.power_cut(3), "/c/cwal".as_ref(), 1 << 20).unwrap();
        let (mut rest, mut next) = (&bytes[..], [0_u8; 3]);
        while !rest.is_empty() {
            assert_eq!(rest[..8], 2_u64.to_le_bytes());
            assert_eq!(rest[10..14], crc32c(&rest[8..10]).to_le_bytes());
            assert_eq!(rest[9], next[usize::from(rest[8])]);
            next[usize::from(rest[8])] += 1;
            rest = &rest[14..];
        }
        assert_eq!(next, [20; 3]);
    }
}
