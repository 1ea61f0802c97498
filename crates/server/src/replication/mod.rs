//! Replication at the sockets: a port that replicas connect to, and a server that is a replica itself.
//!
//! | file | what |
//! |---|---|
//! | `listen.rs` | the port of a primary: PostgreSQL's start-up with `replication=collie`, then the stream |
//! | `follow.rs` | a replica: its directory filled if it is empty, opened, and kept up to date |

mod follow;
mod listen;

pub(crate) use self::{
    follow::{Following, open},
    listen::Replicas,
};
