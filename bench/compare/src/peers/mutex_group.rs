//! `MutexGroup`: a typical good log: one mutex, a buffer in memory, a leader that writes and syncs for all, a filled
//! file.
//!
//! A record has length, body and checksum. The log wraps at the end of its file and overwrites older records, so it
//! cannot be recovered: it is a reference point, not a product.
//!
//! # What always holds
//! - M1. `State::flushing` is set by one thread at a time, and only that thread writes the file.
//! - M2. `durable` moves under the mutex, after the sync, and then all waiters are woken.

use std::{path::Path, sync::Arc};

use collie_base::checksum::crc32c;
use collie_env::{Env, File};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{Appender, Level, Peer};

const FILE_BYTES: u64 = 64 << 20;
/// The buffered bytes at which records are written that no thread waits for.
const FLUSH_BYTES: usize = 1 << 20;
/// The buffered bytes above which appends wait.
const BUFFER_BYTES: usize = 16 << 20;

#[derive(Debug, Default)]
struct State {
    buffer: Vec<u8>,
    /// An emptied buffer for reuse.
    other: Vec<u8>,
    end: u64,
    /// The position of the next flush in the file.
    place: u64,
    durable: u64,
    flushing: bool,
}

/// The log.
#[derive(Debug)]
pub(crate) struct MutexGroup {
    state: Mutex<State>,
    flushed: Condvar,
    file: Arc<dyn File>,
}

impl MutexGroup {
    /// Makes and fills its file in `dir`.
    pub(crate) fn create(env: &Env, dir: &Path) -> anyhow::Result<Self> {
        let file = env.files.create(&dir.join("group"))?;
        let zeros = vec![0; 1 << 20];
        for at in (0..FILE_BYTES).step_by(zeros.len()) {
            file.write_at(at, &zeros)?;
        }
        file.sync_data()?;
        Ok(Self { state: Mutex::default(), flushed: Condvar::new(), file })
    }

    /// Writes the buffer, and syncs it if `sync`. The caller has checked that no other thread is flushing.
    fn flush(&self, mut state: MutexGuard<'_, State>, sync: bool) -> std::io::Result<()> {
        state.flushing = true;
        let other = std::mem::take(&mut state.other);
        let mut buffer = std::mem::replace(&mut state.buffer, other);
        // Each flush begins at a new block, as in Collie's log; the file is used as a ring.
        if state.place + buffer.len() as u64 > FILE_BYTES {
            state.place = 0;
        }
        let (end, place) = (state.end, state.place);
        state.place += (buffer.len() as u64).next_multiple_of(4096);
        drop(state);
        let mut written = self.file.write_at(place, &buffer);
        if sync {
            written = written.and_then(|()| self.file.sync_data());
        }
        buffer.clear();
        let mut state = self.state.lock();
        state.other = buffer;
        state.flushing = false;
        if written.is_ok() && sync {
            state.durable = end;
        }
        self.flushed.notify_all();
        written
    }

    fn append(&self, record: &[u8], level: Level) -> std::io::Result<()> {
        let sum = crc32c(record).to_le_bytes();
        let len = u32::try_from(record.len()).expect("a record is small").to_le_bytes();
        let mut state = self.state.lock();
        while state.buffer.len() > BUFFER_BYTES {
            if state.flushing {
                self.flushed.wait(&mut state);
            } else {
                // The thread that flushed last may also be waiting here, so a waiter must flush.
                self.flush(state, false)?;
                state = self.state.lock();
            }
        }
        state.buffer.extend_from_slice(&len);
        state.buffer.extend_from_slice(record);
        state.buffer.extend_from_slice(&sum);
        state.end += (record.len() + 8) as u64;
        if level == Level::Memory {
            return if state.buffer.len() >= FLUSH_BYTES && !state.flushing {
                self.flush(state, false)
            } else {
                Ok(())
            };
        }
        let end = state.end;
        while state.durable < end {
            if state.flushing {
                self.flushed.wait(&mut state);
            } else {
                self.flush(state, true)?;
                state = self.state.lock();
            }
        }
        Ok(())
    }
}

impl Peer for MutexGroup {
    fn appender(&self, _thread: usize, level: Level) -> anyhow::Result<Appender<'_>> {
        Ok(Box::new(move |record| Ok(self.append(record, level)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a full buffer blocks no thread forever. Method: 4 threads append four buffers' worth that no thread waits
    /// for; the test passes if it ends.
    #[test]
    fn a_full_buffer_is_emptied_by_who_waits() {
        let (env, _disk) = Env::simulated(1);
        env.files.create_dir_all("/g".as_ref()).unwrap();
        let log = MutexGroup::create(&env, "/g".as_ref()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let log = &log;
                scope.spawn(move || {
                    let (mut append, record) = (log.appender(thread, Level::Memory).unwrap(), vec![1; 1 << 20]);
                    (0..16).for_each(|_| append(&record).unwrap());
                });
            }
        });
        assert_eq!(log.state.lock().end, 64 * ((1 << 20) + 8));
    }

    /// Goal: it is an honest peer: every acknowledged record is synced, whole and once. Method: 4 threads, then every
    /// record of the file in the order of the flushes, on a simulated disk after a power cut.
    #[test]
    fn every_acknowledged_record_is_in_the_file() {
        let (env, disk) = Env::simulated(1);
        env.files.create_dir_all("/g".as_ref()).unwrap();
        let log = MutexGroup::create(&env, "/g".as_ref()).unwrap();
        env.files.sync_dir("/g".as_ref()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let log = &log;
                scope.spawn(move || {
                    let mut append = log.appender(usize::from(thread), Level::Disk).unwrap();
                    (0..50_u8).for_each(|number| append(&[thread, number, 7, 7]).unwrap());
                });
            }
        });
        let bytes = collie_env::read_all(&disk.power_cut(3), "/g/group".as_ref(), FILE_BYTES).unwrap();
        let mut found = [[0_u32; 50]; 4];
        for block in bytes.chunks(4096) {
            let mut rest = block;
            while rest.len() >= 12 && rest[..4] == 4_u32.to_le_bytes() {
                assert_eq!(rest[8..12], crc32c(&rest[4..8]).to_le_bytes());
                found[usize::from(rest[4])][usize::from(rest[5])] += 1;
                rest = &rest[12..];
            }
        }
        assert!(found.iter().flatten().all(|count| *count == 1), "{found:?}");
    }
}
