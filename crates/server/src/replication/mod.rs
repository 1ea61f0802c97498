//! Replication at the sockets: a port for replicas, and a server that is itself a replica.
//!
//! | file | what |
//! |---|---|
//! | `listen.rs` | the port of a node: the stream, and questions about terms |
//! | `start_up.rs` | PostgreSQL's start-up with `replication=collie`, and the proof that a peer has the key |
//! | `contact.rs` | whether a replica follows its primary, since when not, and the data of views about it |
//! | `quorum_watch.rs` | since when the quorum has been in its state |
//! | `shown.rs` | the data of views and functions about a primary's slots |
//! | `redundancy.rs` | the quorum that commits wait for: its changes at run time, its loss and its return |
//! | `difference.rs` | a replica whose rows differ from its primary's is not opened again |
//! | `healing.rs` | whether a replica whose copy is damaged is rebuilt automatically |
//! | `key.rs` | the key by which the nodes of one database know each other: its place, and the node that makes it |
//! | `guard.rs` | the lock next to a directory that may be exchanged |
//! | `follow.rs` | a replica: its directory opened, and kept up to date |
//! | `role.rs` | the role in which a node is opened: peers are asked which node leads |
//! | `peers.rs` | the other nodes: questions to all of them, and the addresses where a replica looks for its primary |
//! | `lead_check.rs` | whether a node that leads has to ask the others before it answers without its quorum |
//! | `witness_link.rs` | what the witness of a leader knows about its quorum |
//! | `witness.rs` | the port of a witness: a node that promises terms and keeps no data |
//! | `candidate.rs` | a replica that becomes a primary |
//! | `successor.rs` | a replica to which a running primary hands over |
//! | `handing_over.rs` | a primary that hands over: its transactions end, and its log is held |
//! | `rejoin.rs` | cutting a former primary's log where it parts from that of the node that leads |
//! | `rebuild.rs` | filling a replica's directory, and exchanging the old database for the new one |

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
mod start_up;
mod successor;
mod witness;
mod witness_link;

pub use self::witness::WitnessServer;
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
};
