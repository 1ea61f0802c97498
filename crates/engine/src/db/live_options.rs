//! The options that can be changed while the database is open.

use std::time::Duration;

use collie_base::{parse_bytes, parse_time};

use crate::log::no_log::NO_LOG_TO_BOUND;
use crate::options::check_gc_interval;
use crate::{Db, EngineError, OPTION_NAMES, nearest_option};

impl Db {
    /// Changes an option of the open database by its name, from text: bytes as `1024`, `64KiB`, `1MiB`, times as
    /// `10ms`, `500us`, `2s`. Only `store.gc_interval`, `store.write_buffer_size`, `wal.flush_bytes`,
    /// `wal.flush_delay` and `wal.max_total_wal_size` can be changed. The change is in force at once, until the
    /// database is closed.
    ///
    /// # Errors
    /// [`EngineError::UnknownOption`]; [`EngineError::BadOption`] for a value that the option cannot take, and for an
    /// option that only an opening reads; [`EngineError::InvalidArgument`] for an option of the log without a log.
    pub fn set_option(&self, name: &str, value: &str) -> Result<(), EngineError> {
        let bad =
            |wanted: &str| EngineError::BadOption { name: name.into(), value: value.into(), wanted: wanted.into() };
        let bytes = || parse_bytes(value).ok_or_else(|| bad("bytes, such as 64MiB"));
        let time = || parse_time(value).ok_or_else(|| bad("a time, such as 10ms"));
        let what = "wal.flush_delay or wal.flush_bytes, and wal.enabled = false: there is no log to flush";
        let log = || self.log().ok_or(EngineError::InvalidArgument { what });
        match name {
            "store.gc_interval" => self.set_gc_interval(time()?)?,
            "store.write_buffer_size" => self.set_write_buffer_size(bytes()?),
            "wal.flush_bytes" => log()?.set_flush_bytes(bytes()?)?,
            "wal.flush_delay" => log()?.set_flush_delay(time()?)?,
            "wal.max_total_wal_size" if !self.keeps_log() => return Err(NO_LOG_TO_BOUND),
            "wal.max_total_wal_size" => self.set_max_total_wal_size(bytes()?),
            known if OPTION_NAMES.contains(&known) => {
                return Err(bad("a value when the database is opened: of one that is open only store.gc_interval, \
                     store.write_buffer_size, wal.flush_bytes, wal.flush_delay and wal.max_total_wal_size change"));
            }
            _ => return Err(EngineError::UnknownOption { name: name.into(), nearest: nearest_option(name).into() }),
        }
        Ok(())
    }

    /// Returns the number of bytes of unflushed rows at which a family is flushed ([`Options::write_buffer_size`]).
    pub fn write_buffer_size(&self) -> u64 {
        self.shared.live.write_buffer_bytes()
    }

    /// Changes [`Options::write_buffer_size`] until the database is closed. It applies from the flusher's next
    /// round on, also to the log length that is chosen where none was configured.
    pub fn set_write_buffer_size(&self, bytes: u64) {
        self.shared.live.set_write_buffer_bytes(bytes);
    }

    /// Returns the time between two rounds of the garbage collector while it finds work ([`Options::gc_interval`]).
    pub fn gc_interval(&self) -> Duration {
        self.shared.live.gc_interval()
    }

    /// Changes [`Options::gc_interval`] until the database is closed.
    ///
    /// # Errors
    /// [`EngineError::BadOption`] outside of 1 ms to 1 s; nothing has changed then.
    pub fn set_gc_interval(&self, interval: Duration) -> Result<(), EngineError> {
        check_gc_interval(interval)?;
        self.shared.live.set_gc_interval(interval);
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use collie_env::Env;

    use super::*;
    use crate::Options;
    use crate::shared::threads::collector;

    /// Goal: the collector's rounds are as far apart as the present setting asks for, and no configured pause is
    /// cut down to the collector's own maximum. Method: the pauses that rounds of an idle database ask for, before
    /// and after a change; values out of bounds.
    #[test]
    fn the_collector_goes_by_the_interval_of_now() {
        let (env, _disk) = Env::simulated(1);
        let options = Options { background: false, ..Options::small() };
        let (db, _) = Db::open("/data".as_ref(), options, env, &mut |_| ()).unwrap();
        let ms = Duration::from_millis;
        let mut round = collector();
        let pauses: Vec<Duration> = (0..9).map(|_| round(&db.shared)).collect();
        assert_eq!(pauses.last(), Some(&ms(64)), "{pauses:?}");
        db.set_gc_interval(ms(100)).unwrap();
        assert_eq!((round(&db.shared), db.gc_interval()), (ms(100), ms(100)));
        db.set_gc_interval(ms(1)).unwrap();
        assert!(round(&db.shared) <= ms(64));
        for bad in [Duration::from_micros(999), ms(1001)] {
            db.set_gc_interval(bad).unwrap_err();
        }
        assert_eq!(db.gc_interval(), ms(1));
    }
}
