//! Collie's log with its default settings, except for the protocol and the place of the ring.

use std::path::Path;

use collie_env::Env;
use collie_wal::{Log, Options, Protocol, RingKind, WalError};

use super::{Appender, Level, Peer};

struct Collie(Log);

/// Opens a log with `protocol`; returns `None` if that is not built.
pub(crate) fn open(env: &Env, dir: &Path, protocol: Protocol, ring: RingKind) -> anyhow::Result<Option<Box<dyn Peer>>> {
    match Log::open(env, dir, Options { protocol, ring, ..Options::default() }) {
        Ok((log, _found)) => Ok(Some(Box::new(Collie(log)))),
        Err(WalError::InvalidOptions { message }) if message.contains("not built") => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Peer for Collie {
    fn appender(&self, _thread: usize, level: Level) -> anyhow::Result<Appender<'_>> {
        let level = match level {
            Level::Memory => collie_wal::Level::Memory,
            Level::Process => collie_wal::Level::Process,
            Level::Disk => collie_wal::Level::Disk,
        };
        let mut writer = self.0.writer();
        Ok(Box::new(move |record| {
            writer.commit(1, record, level)?;
            Ok(())
        }))
    }

    fn tidy(&self) -> anyhow::Result<()> {
        self.0.truncate_before(self.0.durable())?;
        Ok(())
    }
}
