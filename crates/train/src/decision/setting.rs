//! `Setting`: the settings that a decision may change. A setting that is missing here cannot be named and so not be
//! changed (RT8).

/// A setting on the allow-list. None of them affects what survives a crash, which nodes a node trusts, or a limit of
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// How long bytes for which no committer waits stay unflushed.
    FlushDelay,
    /// How many such bytes stay unflushed.
    FlushBytes,
    /// How long a primary collects log before it sends it.
    ReplicationFlushDelay,
    /// The size of the log's ring; it changes at the next open.
    RingSize,
    /// The size of the frames that are kept for readers; it changes at the next open.
    RecentSize,
    /// The bytes that are written between two flushes of a table to disk.
    WriteBufferSize,
    /// The time between two rounds of the garbage collector.
    GcInterval,
    /// The threads of a replica that apply row writes.
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

    /// Finds a setting by its key; `None` for a key that is not on the list.
    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.key() == key)
    }

    /// Returns its number in the journal. Numbers are never reused.
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

    /// Formats a value for the configuration: times in microseconds, sizes in bytes. It cuts off fractions.
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

    /// Goal: RT8. Method: keys on the list are found, keys that affect safety are not.
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

    /// Goal: values are formatted as the configuration accepts them. Method: a time, a size, a count.
    #[test]
    fn values_are_written_as_the_configuration_takes_them() {
        assert_eq!(Setting::FlushDelay.text(5000.0), "5000us");
        assert_eq!(Setting::WriteBufferSize.text(1048576.9), "1048576");
        assert_eq!(Setting::ApplyWorkers.text(2.0), "2");
    }
}
