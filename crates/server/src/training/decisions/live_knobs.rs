//! [`LiveKnobs`]: the settings of a server with an open database.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use collie_engine::Replica;
use collie_sql::session::Database;
use collie_train::decision::Setting;

use super::{super::granted::whole, knobs::Knobs};

/// The upper limit, in us, for the time of asynchronous commits that a crash can lose: decisions do not trade
/// durability (TRAIN-8).
const FLUSH_DELAY_US_MAX: f64 = 40_000.0;
const MIB: f64 = 1_048_576.0;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct LiveKnobs {
    database: Weak<Database>,
    /// The replica, if the node was opened as one.
    replica: Option<Replica>,
    /// `wal.ring_size`.
    ring_bytes: u64,
}

fn us(time: Duration) -> f64 {
    time.as_micros() as f64
}

impl LiveKnobs {
    /// Makes the knobs of a database, and of its replica, if there is one.
    pub(crate) fn new(database: &Arc<Database>, replica: Option<Replica>, ring_bytes: u64) -> Self {
        Self { database: Arc::downgrade(database), replica, ring_bytes }
    }

    /// Returns the replica while it follows.
    fn following(&self, database: &Database) -> Option<&Replica> {
        self.replica.as_ref().filter(|_| database.engine().is_replica())
    }
}

impl Knobs for LiveKnobs {
    fn value(&self, setting: Setting) -> Option<f64> {
        let database = self.database.upgrade()?;
        let (db, following) = (database.engine(), self.following(&database));
        // The log of a follower is flushed at once.
        let log = || db.log().filter(|_| following.is_none());
        match setting {
            // Only the smaller of the two delays is in force, and only that setting has a value.
            Setting::FlushDelay => {
                let log = log()?;
                let (delay, haste) = (log.flush_delay(), log.flush_delay_override());
                haste.is_none_or(|haste| haste >= delay).then_some(us(delay))
            }
            Setting::ReplicationFlushDelay => {
                let log = log()?;
                log.flush_delay_override().filter(|haste| *haste < log.flush_delay()).map(us)
            }
            Setting::FlushBytes => log().map(|log| log.flush_bytes() as f64),
            Setting::WriteBufferSize => Some(db.write_buffer_size() as f64),
            Setting::GcInterval => Some(us(db.gc_interval())),
            Setting::ApplyWorkers => {
                let workers = following.map_or(0, |replica| replica.apply_stat().workers);
                (workers > 0).then_some(workers as f64)
            }
            Setting::RingSize | Setting::RecentSize => None,
        }
    }

    fn put(&self, setting: Setting, value: f64) -> Result<(), String> {
        let closed = || "the database is closed".to_owned();
        let database = self.database.upgrade().ok_or_else(closed)?;
        let db = database.engine();
        let log = || db.log().ok_or_else(|| "there is no log".to_owned());
        match setting {
            Setting::FlushDelay => {
                log()?.set_flush_delay(Duration::from_micros(whole(value))).map_err(|error| error.to_string())
            }
            Setting::ReplicationFlushDelay => {
                log()?.set_flush_delay_override(Duration::from_micros(whole(value))).map_err(|error| error.to_string())
            }
            Setting::FlushBytes => log()?.set_flush_bytes(whole(value)).map_err(|error| error.to_string()),
            Setting::WriteBufferSize => {
                db.set_write_buffer_size(whole(value));
                Ok(())
            }
            Setting::GcInterval => {
                db.set_gc_interval(Duration::from_micros(whole(value))).map_err(|error| error.to_string())
            }
            Setting::ApplyWorkers => {
                let replica = self.following(&database).ok_or("it is a replica that has apply workers")?;
                let workers = usize::try_from(whole(value)).unwrap_or(usize::MAX);
                replica.set_apply_workers(workers).map_err(|error| error.to_string())
            }
            Setting::RingSize | Setting::RecentSize => Err(format!("{} is read when the server starts", setting.key())),
        }
    }

    fn range(&self, setting: Setting) -> (f64, f64) {
        match setting {
            Setting::FlushDelay => (1000.0, FLUSH_DELAY_US_MAX),
            Setting::ReplicationFlushDelay => (100.0, 10_000.0),
            Setting::FlushBytes => (65_536.0, (8.0 * MIB).min(self.ring_bytes as f64 / 2.0)),
            Setting::WriteBufferSize => (16.0 * MIB, 256.0 * MIB),
            Setting::GcInterval => (1000.0, 256_000.0),
            Setting::ApplyWorkers => {
                let most = self.replica.as_ref().map_or(0, Replica::apply_workers_max);
                (1.0, most as f64)
            }
            Setting::RingSize | Setting::RecentSize => (0.0, 0.0),
        }
    }

    fn is_open(&self) -> bool {
        self.database.strong_count() > 0
    }
}
