//! Identity: which histories a node has had, where two nodes part, and what follows for one that wants to follow the other.
//!
//! A history is a line of positions: one begins when a database is made, when it opens after a crash (positions are skipped
//! there) and at a promotion. Equal history and position mean equal bytes on every node (replication.md R2), so two lists of
//! histories say how much two logs share without a look at the logs.
//!
//! # Invariants
//! - D1. [`Decision::Stream`]: whatever the replica has, the primary has too, at the same positions.
//! - D2. [`Decision::Truncate`]: below `start` both have the same; above, the replica has what the primary has not, and a
//!   promotion lies between, so that nothing is cut that only a fault took from the primary.
//! - D3. A primary that has lost what a replica has (a disk that lied) gets [`Decision::Ahead`]: nothing is cut.
//! - D4. Who has seen a higher term is never told to follow a lower one.
//! - D5. Everything is a function of its arguments; the bytes at the end are compared by the caller, before it streams.
//!
//! Checked by `identity_tests`: random trees of nodes that append, follow, crash, are promoted and lose bytes, against their
//! bytes.

use collie_base::{Lsn, Term};

use crate::{
    packet::{ErrorCode, Hello, History, PROTOCOL, PROTOCOL_MIN},
    term::is_absurd,
};

/// Who a node is, as far as others need to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The database; 0 for a directory without one.
    pub cluster: u128,
    /// The directory.
    pub node: u64,
    /// The highest term that it has led in, followed, or promised to follow.
    pub term: Term,
    /// Its histories, oldest first; perhaps only the newest.
    pub histories: Vec<History>,
    /// Where its log ends: of a primary, what is durable; of a replica, what it has received.
    pub end: Lsn,
}

/// What becomes of a replica, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It follows from here on, once the ends of both logs are found equal.
    Stream {
        /// Where its log ends.
        start: Lsn,
    },
    /// It sets aside what it has from here on, and comes again.
    Truncate {
        /// Where the logs part.
        start: Lsn,
    },
    /// It is filled anew.
    Backup {
        /// Why.
        why: Rebuild,
    },
    /// It has more than this primary, which has lost it.
    Ahead {
        /// Where the primary's part of the common history ends.
        end: Lsn,
        /// Where the replica's log ends.
        received: Lsn,
    },
    /// It does not belong here.
    Refuse {
        /// The code to tell.
        code: ErrorCode,
        /// What is wrong, and what to do.
        text: String,
    },
    /// This primary is not one any more: the other has seen a higher term, or the same one and the greater history.
    StepDown {
        /// The term.
        term: Term,
    },
}

/// Why a replica is filled anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuild {
    /// It has no database.
    Empty,
    /// No history is in both lists.
    NothingCommon,
    /// The bytes at the end of its log are not those of the primary.
    TailDiffers,
    /// What it needs next was freed.
    LogGone,
}

impl Rebuild {
    /// Says it in a line of a log.
    pub fn text(self) -> &'static str {
        match self {
            Self::Empty => "it has no database yet",
            Self::NothingCommon => "its log and the primary's have no history in common",
            Self::TailDiffers => "the last bytes of its log are not those of the primary at the same position",
            Self::LogGone => "the primary has freed the log that it needs next",
        }
    }
}

/// Where two logs part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The first position that is not in both.
    pub at: Lsn,
    /// The term of the newest common history.
    pub term: Term,
    /// The history behind the common one in the first log.
    pub ours: Option<History>,
    /// In the second.
    pub theirs: Option<History>,
}

/// Finds where two logs part: the smaller end of their newest common history. `None` without one.
///
/// Cost: the product of the lengths, which are bounded.
pub fn fork(ours: &[History], our_end: Lsn, theirs: &[History], their_end: Lsn) -> Option<Fork> {
    // Newest first. One id with two descriptions is no common history: ids are drawn, and never drawn again.
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

/// Returns the newest protocol that both speak.
pub fn common_protocol(hello: &Hello<'_>) -> Option<u16> {
    let newest = hello.proto_max.min(PROTOCOL);
    (newest >= hello.proto_min.max(PROTOCOL_MIN)).then_some(newest)
}

/// Decides what becomes of `replica`, which wants to follow `primary`.
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
        // Both went on by themselves.
        (Some(ours), Some(theirs)) if promoted(ours) || promoted(theirs) => {
            let newest = |list: &[History]| list.last().map(|history| (history.term, history.id));
            if newest(&primary.histories) < newest(&replica.histories) {
                Decision::StepDown { term: replica.term }
            } else {
                Decision::Truncate { start: fork.at }
            }
        }
        // The replica has what a promoted node has not.
        (Some(ours), None) if promoted(ours) => Decision::Truncate { start: fork.at },
        // The replica was promoted, and this primary has heard of its term but went on in the old history.
        (None, Some(theirs)) if promoted(theirs) => Decision::StepDown { term: replica.term },
        // In one history, or behind a restart of the same primary: it lost what it had confirmed (D3).
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
