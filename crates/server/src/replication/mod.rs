//! Replication at the sockets: a port that replicas connect to, and a server that is a replica itself.
//!
//! | file | what |
//! |---|---|
//! | `listen.rs` | the port of a primary: PostgreSQL's start-up with `replication=collie`, then the stream |
//! | `contact.rs` | whether a replica follows its primary, since when not, and what views show of it |
//! | `quorum_watch.rs` | since when the quorum stands as it does |
//! | `shown.rs` | what views and functions show of a primary's slots |
//! | `redundancy.rs` | the quorum that commits wait for: changed while the server runs, said when it is lost, and when it is back |
//! | `difference.rs` | a replica whose rows are not its primary's is not opened again |
//! | `healing.rs` | whether a replica whose copy is damaged is filled anew by itself |
//! | `key.rs` | the key by which the nodes of one database know each other: where it is, who makes it |
//! | `guard.rs` | the lock beside a directory that may be exchanged |
//! | `follow.rs` | a replica: its directory opened, and kept up to date |
//! | `role.rs` | what a node is opened as: who leads is asked |
//! | `peers.rs` | the other nodes: questions to all of them, and where a replica looks for its primary |
//! | `lead_check.rs` | whether a node that leads has to ask the others before it answers without its quorum |
//! | `candidate.rs` | a replica that is made a primary |
//! | `successor.rs` | a replica to which a primary that is there hands over |
//! | `handing_over.rs` | a primary that hands over: its transactions end, its log takes nothing more |
//! | `rejoin.rs` | a former primary's log cut where that of the one that leads parts |
//! | `rebuild.rs` | a replica's directory filled, at first or anew, and the one before exchanged for it |

mod candidate;
mod contact;
pub(crate) mod difference;
mod follow;
mod guard;
mod handing_over;
mod healing;
pub(crate) mod key;
mod lead_check;
mod listen;
mod peers;
mod quorum_watch;
mod rebuild;
mod redundancy;
mod rejoin;
mod role;
mod shown;
mod successor;

pub use self::peers::{Peer, Peers};
pub(crate) use self::{
    candidate::{Node, announce},
    contact::ShownNode,
    follow::{Following, open, reason},
    guard::{Exchange, guard},
    handing_over::hand_over,
    healing::Healing,
    lead_check::LeadCheck,
    listen::Replicas,
    rebuild::{Patience, is_empty, rebuild, settle},
    rejoin::{Rejoin, set_aside},
    role::{Role, choose, name_of, others},
    shown::EPOCH_DIFFERENCE,
};
