//! `Setting`: what a decision may change. What is not here cannot be named, let alone changed (RT8).

/// A setting on the allow-list. None of them decides what survives a crash, who is trusted, or how much memory there is beyond a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// How long bytes that nobody waits for stay unflushed.
    FlushDelay,
    /// How many of them.
    FlushBytes,
    /// How long a primary gathers what it sends.
    ReplicationFlushDelay,
    /// Size of the log's ring, from the next open on.
    RingSize,
    /// Frames that are kept for readers, from the next open on.
    RecentSize,
    /// What is written between two flushes of a table to disk.
    WriteBufferSize,
    /// Between two rounds of the garbage collector.
    GcInterval,
    /// Threads of a replica that apply row writes.
    ApplyWorkers,
}

impl Setting {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::FlushDelay,
        Self::FlushBytes,
        Self::ReplicationFlushDelay,
        Self::RingSize,
        Self::RecentSize,
        Self::WriteBufferSize,
        Self::GcInterval,
        Self::ApplyWorkers,
    ];

    /// Returns its key in the configuration.
    pub const fn key(self) -> &'static str {
        match self {
            Self::FlushDelay => "wal.flush_delay",
            Self::FlushBytes => "wal.flush_bytes",
            Self::ReplicationFlushDelay => "replication.flush_delay",
            Self::RingSize => "wal.ring_size",
            Self::RecentSize => "wal.recent_size",
            Self::WriteBufferSize => "store.write_buffer_size",
            Self::GcInterval => "store.gc_interval",
            Self::ApplyWorkers => "replication.apply_workers",
        }
    }

    /// Finds a setting by its key; none for every key that is not on the list.
    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.key() == key)
    }

    /// Returns its number in the journal. Numbers are never used again.
    pub const fn number(self) -> u8 {
        match self {
            Self::FlushDelay => 1,
            Self::FlushBytes => 2,
            Self::ReplicationFlushDelay => 3,
            Self::RingSize => 4,
            Self::RecentSize => 5,
            Self::WriteBufferSize => 6,
            Self::GcInterval => 7,
            Self::ApplyWorkers => 8,
        }
    }

    /// Finds a setting by its number in the journal.
    pub fn numbered(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.number() == number)
    }

    /// Returns whether a running server can use another value, so that a canary is possible.
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::RingSize | Self::RecentSize)
    }

    /// Writes a value as the configuration takes it; the unit of times is a microsecond, that of sizes a byte. Fractions are cut off.
    pub fn text(self, value: f64) -> String {
        let whole = crate::numbers::count_of(value);
        match self {
            Self::FlushDelay | Self::ReplicationFlushDelay | Self::GcInterval => format!("{whole}us"),
            Self::FlushBytes | Self::RingSize | Self::RecentSize | Self::WriteBufferSize | Self::ApplyWorkers => {
                whole.to_string()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: RT8. Method: keys on the list are found, keys that decide what is safe are not.
    #[test]
    fn only_the_allow_list_has_names() {
        for setting in Setting::ALL {
            assert_eq!(Setting::of_key(setting.key()), Some(setting));
            assert_eq!(Setting::numbered(setting.number()), Some(setting));
        }
        for key in [
            "synchronous_commit",
            "replication.quorum",
            "wal.copies_required",
            "wal.enabled",
            "wal.manual_wal_flush",
            "wal.recovery_mode",
            "store.memory_limit",
            "server.listen",
            "",
        ] {
            assert_eq!(Setting::of_key(key), None, "{key}");
        }
        assert_eq!([0, 9].map(Setting::numbered), [None, None]);
    }

    /// Goal: values are written as people would. Method: a time, a size, a count.
    #[test]
    fn values_are_written_as_the_configuration_takes_them() {
        assert_eq!(Setting::FlushDelay.text(5000.0), "5000us");
        assert_eq!(Setting::WriteBufferSize.text(1048576.9), "1048576");
        assert_eq!(Setting::ApplyWorkers.text(2.0), "2");
    }
}
