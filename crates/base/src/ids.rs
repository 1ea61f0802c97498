//! Ids as separate types, so that one kind of id is never passed for another.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        pub struct $name($raw);

        impl $name {
            /// Wraps a raw id.
            pub const fn new(raw: $raw) -> Self {
                Self(raw)
            }

            /// Returns the raw id.
            pub const fn get(self) -> $raw {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id!(
    /// Id of a writing transaction, starting at 1, never reused. It occurs only in memory and in log records.
    Xid(u64)
);
id!(
    /// Id of a column family (one per SQL table and one per index), never reused. Family 0 holds the catalog.
    CfId(u32)
);
id!(
    /// Number of a leadership; it grows by one at each promotion. It is 0 on a node that has always run without
    /// others.
    Term(u64)
);
id!(
    /// Random id of one line of log positions; a crash or a promotion starts a new one.
    HistoryId(u64)
);

impl CfId {
    /// The family that holds the catalog.
    pub const CATALOG: Self = Self(0);
}
