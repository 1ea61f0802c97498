//! Replication at the sockets: a port that replicas connect to, and a server that is a replica itself.
//!
//! | file | what |
//! |---|---|
//! | `listen.rs` | the port of a primary: PostgreSQL's start-up with `replication=collie`, then the stream |
//! | `shown.rs` | what views and functions show of a primary's slots |
//! | `redundancy.rs` | the quorum that commits wait for: said when it is lost, and when it is back |
//! | `difference.rs` | a replica whose rows are not its primary's is not opened again |
//! | `follow.rs` | a replica: its directory opened, and kept up to date |
//! | `role.rs` | what a node is opened as: who leads is asked |
//! | `peers.rs` | the other nodes: questions to all of them, and where a replica looks for its primary |
//! | `candidate.rs` | a replica that is made a primary |
//! | `rejoin.rs` | a former primary's log cut where that of the one that leads parts |
//! | `rebuild.rs` | a replica's directory filled, at first or anew, and the one before exchanged for it |

mod candidate;
pub(crate) mod difference;
mod follow;
mod listen;
mod peers;
mod rebuild;
mod redundancy;
mod rejoin;
mod role;
mod shown;

pub use self::peers::{Peer, Peers};
pub(crate) use self::{
    candidate::{Node, announce},
    follow::{Following, open, reason},
    listen::Replicas,
    rebuild::{Patience, list, rebuild, settle},
    rejoin::{Rejoin, set_aside},
    role::{Role, choose, name_of},
};
