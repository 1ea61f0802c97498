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
}

impl Setting {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::FlushDelay,
        Self::FlushBytes,
        Self::ReplicationFlushDelay,
        Self::RingSize,
        Self::RecentSize,
        Self::WriteBufferSize,
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
        }
    }

    /// Finds a setting by its key; none for every key that is not on the list.
    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.key() == key)
    }

    /// Returns whether a running server can use another value, so that a canary is possible.
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::RingSize | Self::RecentSize)
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
    }
}
