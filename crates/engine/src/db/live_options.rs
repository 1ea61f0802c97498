//! The options that can be changed while the database is open.

use std::time::Duration;

use crate::options::check_gc_interval;
use crate::{Db, EngineError};

impl Db {
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
