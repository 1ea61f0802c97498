//! `Life`: where a replica stands with its primary, and so what log is kept for it. One machine for both sides, without I/O: a primary
//! steps the life of each slot ([`Slots`](crate::primary::Slots)), a replica its own ([`follow`](crate::standby::follow) and who fills its
//! directory).
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
//! | life | the replica | log that is kept | a hello that asks for more log |
//! |---|---|---|---|
//! | `Lost` | has to be filled: it is empty, or the log that it needs next is not kept | none | gets it only while that is there, within the bounds |
//! | `Copying` | is being filled | all that the copy needs, whatever the bounds | - |
//! | `Copied` | is filled, and opens what it got | the same, until it comes or a time is over | joins |
//! | `Joining` | streams, from where its copy begins | the same | - |
//! | `Following` | streams, and is within the bounds | within the bounds | - |
//! | `Away` | was `Following` | within the bounds | follows |
//!
//! # Invariants
//! - A1. Who has lost its place is filled, however it lost it: from `Lost` every way that does not find the log leads over `Copying`.
//! - A2. From the moment that a copy begins to be made until its replica has come within the bounds, no bound takes away what it needs:
//!   a copy that was taken once is enough. What is left is what the log itself bounds (`wal.max_segments`), so that no slot stops commits
//!   (replication.md R12); that is `Beyond` too, and said.
//! - A3. A copy that ends before it is whole leaves nothing that is worth keeping log for.
//! - A4. What is not in the drawing changes nothing: events come late, from another thread or the other side.
//!
//! Checked by the tests here, and end to end by `liveness_tests`: whatever a primary does, every replica streams in the end, or says what
//! somebody must do.

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Life {
    /// To be filled.
    #[default]
    Lost,
    /// Being filled.
    Copying,
    /// Filled, and not heard of since.
    Copied,
    /// Streaming from where its copy begins, further behind than it may be kept log for otherwise.
    Joining,
    /// Streaming.
    Following,
    /// It was, and is not connected.
    Away,
}

/// What happens to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A copy for it is begun.
    Copy,
    /// The copy is whole, on its disk.
    Copied,
    /// It is streamed to.
    Stream,
    /// What it needs next is as near as the bounds ask for.
    WithinBounds,
    /// Its connection has ended.
    Ended,
    /// Its log is not kept any more, or is no part of the primary's.
    Beyond,
    /// It was not heard of for as long as it may be.
    TooOld,
    /// It was given time to open its copy, and has not come.
    Waited,
}

/// How much log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// None.
    Nothing,
    /// As much as `replication.slot_bytes` allows.
    WithinBounds,
    /// As much as it takes, as far as the log itself can (A2).
    Whatever,
}

impl Life {
    /// Returns what follows: the one place where a life changes.
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

    /// Returns how much log is kept.
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

    /// Goal: the drawing, and nothing besides. Method: every life with every event; those that change are listed.
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

    /// Goal: A1, A2: from every life a replica comes to follow within a copy and a stream, and from the beginning of a copy until it is
    /// within the bounds everything is kept. Method: each life, and the way over a copy.
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
