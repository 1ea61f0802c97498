//! Identity: which histories a node has had, where the logs of two nodes part, and whether one node may follow the
//! other.
//!
//! A history is a line of positions: one begins when a database is created, when it opens after a crash (positions
//! are skipped there) and at a promotion. Equal history and position mean equal bytes on every node
//! (REPL-2), so two lists of histories show how much two logs share without reading the logs.
//!
//! # Invariants
//! - D1. [`Decision::Stream`]: the primary has everything that the replica has, at the same positions.
//! - D2. [`Decision::Truncate`]: below `start` both have the same bytes; above it the replica has bytes that the
//!   primary lacks, and a promotion is in between, so bytes that the primary lost only through a fault are never
//!   cut.
//! - D3. A primary that has lost bytes that a replica has (a disk that lied) gets [`Decision::Ahead`]: nothing is
//!   cut.
//! - D4. A node that has seen a higher term is never directed to follow a lower one.
//! - D5. Every function depends only on its arguments; the caller compares the bytes at the end before it streams.
//!
//! Checked by `identity_tests`, which compares decisions with the bytes of random trees of nodes that append,
//! follow, crash, are promoted and lose bytes.

use collie_base::{Lsn, Term};

use crate::{
    packet::{ErrorCode, Hello, History, PROTOCOL, PROTOCOL_MIN},
    term::is_absurd,
};

/// The identity of a node, as far as other nodes use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The id of the database; 0 for a directory without one.
    pub cluster: u128,
    /// The id of the node's directory.
    pub node: u64,
    /// The highest term that it has led in, followed, or promised to follow.
    pub term: Term,
    /// Its histories, oldest first; possibly only the newest.
    pub histories: Vec<History>,
    /// The end of its log: on a primary, the durable position; on a replica, the received position.
    pub end: Lsn,
}

/// The decision about a replica, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It follows from here, once the ends of both logs compare equal.
    Stream {
        /// The end of its log.
        start: Lsn,
    },
    /// It sets aside its log from here on, and connects again.
    Truncate {
        /// The position at which the logs part.
        start: Lsn,
    },
    /// It is rebuilt from a base backup.
    Backup {
        /// The reason.
        why: Rebuild,
    },
    /// It has log that this primary has lost.
    Ahead {
        /// The end of the primary's part of the common history.
        end: Lsn,
        /// The end of the replica's log.
        received: Lsn,
    },
    /// It may not follow this primary.
    Refuse {
        /// The code to send.
        code: ErrorCode,
        /// The problem, and the action to take.
        text: String,
    },
    /// This primary has to step down: the other node has seen a higher term, or it was promoted and has the newer
    /// history.
    StepDown {
        /// The term.
        term: Term,
    },
}

/// Why a replica is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuild {
    /// It has no database.
    Empty,
    /// No history is in both lists.
    NothingCommon,
    /// The bytes at the end of its log are not those of the primary.
    TailDiffers,
    /// The log that it needs next was freed.
    LogGone,
}

impl Rebuild {
    /// Returns the reason as text for a log line.
    pub fn text(self) -> &'static str {
        match self {
            Self::Empty => "it has no database yet",
            Self::NothingCommon => "its log and the primary's have no history in common",
            Self::TailDiffers => "the last bytes of its log are not those of the primary at the same position",
            Self::LogGone => "the primary has freed the log that it needs next",
        }
    }
}

/// The point at which two logs part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The first position that the two logs do not share.
    pub at: Lsn,
    /// The term of the newest common history.
    pub term: Term,
    /// The history after the common one in the first log.
    pub ours: Option<History>,
    /// The history after the common one in the second log.
    pub theirs: Option<History>,
}

/// Finds where two logs part: the smaller end of their newest common history. Returns `None` if they have none.
///
/// Cost: the product of the lengths, which are bounded.
pub fn fork(ours: &[History], our_end: Lsn, theirs: &[History], their_end: Lsn) -> Option<Fork> {
    // Newest first. Two descriptions of one id are no common history: a random id is never drawn twice.
    let (mine, other) = ours
        .iter()
        .enumerate()
        .rev()
        .find_map(|(mine, history)| theirs.iter().position(|other| other == history).map(|other| (mine, other)))?;
    let next = |list: &[History], index: usize| list.get(index + 1).copied();
    let (our_next, their_next) = (next(ours, mine), next(theirs, other));
    let end = |next: Option<History>, end: Lsn| next.map_or(end, |next| next.prev_end);
    let at = end(our_next, our_end).min(end(their_next, their_end));
    let term = ours.get(mine).map_or(Term::new(0), |history| history.term);
    Some(Fork { at, term, ours: our_next, theirs: their_next })
}

/// Returns the newest protocol version that both nodes speak.
pub fn common_protocol(hello: &Hello<'_>) -> Option<u16> {
    let newest = hello.proto_max.min(PROTOCOL);
    (newest >= hello.proto_min.max(PROTOCOL_MIN)).then_some(newest)
}

/// Decides whether `replica` may follow `primary`, and from where.
pub fn decide(primary: &Identity, replica: &Identity) -> Decision {
    let refuse = |code, text: String| Decision::Refuse { code, text };
    if replica.node == primary.node {
        let text = format!(
            "node {:016x} is this primary's own id: a copy of a directory is no replica; start with an empty --data",
            replica.node
        );
        return refuse(ErrorCode::NodeInUse, text);
    }
    if replica.cluster == 0 {
        return Decision::Backup { why: Rebuild::Empty };
    }
    if replica.cluster != primary.cluster {
        let text = format!(
            "the replica belongs to database {:032x}, the primary is {:032x}; follow the right primary, or start with an \
             empty --data",
            replica.cluster, primary.cluster
        );
        return refuse(ErrorCode::Cluster, text);
    }
    if is_absurd(replica.term, primary.term) {
        let text = format!(
            "the replica has promised term {}, which is not to be believed where the primary leads in term {}: stop it, and \
             collie promote --force-term {1} --data DIR",
            replica.term, primary.term
        );
        return refuse(ErrorCode::Term, text);
    }
    if replica.term > primary.term {
        return Decision::StepDown { term: replica.term }; // D4
    }
    let Some(fork) = fork(&primary.histories, primary.end, &replica.histories, replica.end) else {
        return Decision::Backup { why: Rebuild::NothingCommon };
    };
    if replica.end <= fork.at {
        return Decision::Stream { start: replica.end }; // D1: its newest history is the common one
    }
    let promoted = |next: History| next.term > fork.term;
    match (fork.ours, fork.theirs) {
        // Both logs continue after the fork, at least one of them with a promotion.
        (Some(ours), Some(theirs)) if promoted(ours) || promoted(theirs) => {
            let newest = |list: &[History]| list.last().map(|history| (history.term, history.id));
            if newest(&primary.histories) < newest(&replica.histories) {
                Decision::StepDown { term: replica.term }
            } else {
                Decision::Truncate { start: fork.at }
            }
        }
        // The replica has log that a promoted node lacks.
        (Some(ours), None) if promoted(ours) => Decision::Truncate { start: fork.at },
        // The replica was promoted; this primary has learned of its term but continued the old history.
        (None, Some(theirs)) if promoted(theirs) => Decision::StepDown { term: replica.term },
        // Within one history, or across a restart of the same primary: the primary lost bytes that it had
        // confirmed (D3).
        (_, None) => Decision::Ahead { end: fork.at, received: replica.end },
        (_, Some(_)) => refuse(
            ErrorCode::Cluster,
            format!(
                "the replica has written by itself since {}, without a promotion (a restored copy?); start it with an \
                 empty --data, or without --replica-of",
                fork.at
            ),
        ),
    }
}
