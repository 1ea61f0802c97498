//! `Life`: the state of a replica with its primary, which decides the log kept for it. One state machine for both
//! sides, without I/O: a primary steps the state of each slot ([`Slots`](crate::primary::Slots)), a replica its
//! own ([`follow`](crate::standby::follow) and the code that fills its directory).
//!
//! ```text
//!      +--------------------------- Beyond (from everywhere), TooOld (Away, Copied) <--------------------------+
//!      v                                                                                                       |
//!    Lost --Copy--> Copying --Copied--> Copied --Stream--> Joining --WithinBounds--> Following --Ended--> Away +
//!      ^               |                |  ^                  |                       ^     ^              |
//!      +----Ended------+                |  +------Ended-------+                       |     +----Stream----+
//!                                       +--Waited--> Away                             +--Stream-- Lost
//! ```
//!
//! | state | the replica | log that is kept | a hello that asks for more log |
//! |---|---|---|---|
//! | `Lost` | must be filled: it is empty, or its log is not kept | none | served only if it exists, within bounds |
//! | `Copying` | is being filled | all that the copy needs, whatever the bounds | - |
//! | `Copied` | is filled, and opens its copy | the same, until it connects or its time is over | joins |
//! | `Joining` | streams, from where its copy begins | the same | - |
//! | `Following` | streams, and is within the bounds | within the bounds | - |
//! | `Away` | was `Following` | within the bounds | follows |
//!
//! # Invariants
//! - A1. A replica that has lost its place is filled, however it lost it: from `Lost` every path leads over
//!   `Copying`, except where the log is still found.
//! - A2. From the moment that making a copy begins until its replica is within the bounds, no bound takes away the
//!   log that it needs: one copy is enough. Only the bound of the log itself remains (`wal.max_segments`), so that
//!   no slot stops commits (REPL-12); reaching it is `Beyond` too, and is logged.
//! - A3. A copy that ends before it is whole leaves nothing for which log should be kept.
//! - A4. An event that is not in the drawing changes nothing: events may be late, from another thread or the other
//!   side.
//!
//! Checked by the tests here, and end to end by `stream_tests/liveness.rs`: whatever a primary does, every replica
//! streams in the end, or reports the action that an operator has to take.

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Life {
    /// Has to be filled.
    #[default]
    Lost,
    /// Is being filled.
    Copying,
    /// Has been filled, and has not connected since.
    Copied,
    /// Streams from where its copy begins, further behind than the bounds allow otherwise.
    Joining,
    /// Streams, within the bounds.
    Following,
    /// Was following, and is not connected.
    Away,
}

/// An event that concerns a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A copy for it begins.
    Copy,
    /// The copy is complete, on its disk.
    Copied,
    /// A stream to it begins.
    Stream,
    /// The log that it needs next is within the bounds.
    WithinBounds,
    /// Its connection has ended.
    Ended,
    /// Its log is no longer kept, or is no part of the primary's.
    Beyond,
    /// It has not connected for the longest time allowed.
    TooOld,
    /// Its time to open the copy is over, and it has not connected.
    Waited,
}

/// How much log is kept for a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// None.
    Nothing,
    /// As much as `replication.slot_bytes` allows.
    WithinBounds,
    /// All that the replica needs, as far as the log itself can keep it (A2).
    Whatever,
}

impl Life {
    /// Returns the state after `event`; the only place where the state changes.
    #[must_use]
    pub const fn on(self, event: Event) -> Self {
        match (self, event) {
            (_, Event::Beyond) | (Self::Away | Self::Copied, Event::TooOld) => Self::Lost,
            (Self::Copying, Event::Ended) => Self::Lost, // A3
            (Self::Lost | Self::Away | Self::Copied, Event::Copy) => Self::Copying,
            (Self::Copying, Event::Copied) => Self::Copied,
            (Self::Copied, Event::Stream) => Self::Joining,
            (Self::Lost | Self::Away, Event::Stream) => Self::Following,
            (Self::Joining, Event::WithinBounds) => Self::Following,
            (Self::Joining, Event::Ended) => Self::Copied,
            (Self::Following, Event::Ended) | (Self::Copied, Event::Waited) => Self::Away,
            (same, _) => same, // A4
        }
    }

    /// Returns how much log is kept in this state.
    pub const fn keeps(self) -> Keep {
        match self {
            Self::Lost => Keep::Nothing,
            Self::Copying | Self::Copied | Self::Joining => Keep::Whatever,
            Self::Following | Self::Away => Keep::WithinBounds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVES: [Life; 6] = [Life::Lost, Life::Copying, Life::Copied, Life::Joining, Life::Following, Life::Away];
    const EVENTS: [Event; 8] = [
        Event::Copy,
        Event::Copied,
        Event::Stream,
        Event::WithinBounds,
        Event::Ended,
        Event::Beyond,
        Event::TooOld,
        Event::Waited,
    ];

    /// Goal: the transitions of the drawing, and no others. Method: every state with every event; those that
    /// change the state are listed.
    #[test]
    fn a_life_changes_as_it_is_drawn() {
        let mut changes = Vec::new();
        for life in LIVES {
            for event in EVENTS {
                let next = life.on(event);
                if next != life {
                    changes.push((life, event, next));
                }
            }
        }
        let drawn = [
            (Life::Lost, Event::Copy, Life::Copying),
            (Life::Lost, Event::Stream, Life::Following),
            (Life::Copying, Event::Copied, Life::Copied),
            (Life::Copying, Event::Ended, Life::Lost),
            (Life::Copying, Event::Beyond, Life::Lost),
            (Life::Copied, Event::Copy, Life::Copying),
            (Life::Copied, Event::Stream, Life::Joining),
            (Life::Copied, Event::Beyond, Life::Lost),
            (Life::Copied, Event::TooOld, Life::Lost),
            (Life::Copied, Event::Waited, Life::Away),
            (Life::Joining, Event::WithinBounds, Life::Following),
            (Life::Joining, Event::Ended, Life::Copied),
            (Life::Joining, Event::Beyond, Life::Lost),
            (Life::Following, Event::Ended, Life::Away),
            (Life::Following, Event::Beyond, Life::Lost),
            (Life::Away, Event::Copy, Life::Copying),
            (Life::Away, Event::Stream, Life::Following),
            (Life::Away, Event::Beyond, Life::Lost),
            (Life::Away, Event::TooOld, Life::Lost),
        ];
        assert_eq!(changes, drawn);
    }

    /// Goal: A1, A2: from every state a replica comes to follow after a copy and a stream, and from the beginning
    /// of a copy until it is within the bounds everything is kept. Method: each state, and the path over a copy.
    #[test]
    fn every_life_leads_to_following() {
        for life in LIVES {
            let lost = life.on(Event::Beyond);
            assert_eq!((lost, lost.keeps()), (Life::Lost, Keep::Nothing));
            let mut now = lost;
            for event in [Event::Copy, Event::Copied, Event::Stream] {
                now = now.on(event);
                assert_eq!(now.keeps(), Keep::Whatever, "{now:?}");
            }
            assert_eq!(now.on(Event::WithinBounds), Life::Following);
        }
    }
}
