//! [`Trio`]: three nodes that know each other, or two and a witness, as real processes (`failover::nodes`) or in a
//! simulation (`cluster::nodes`).

use std::path::PathBuf;

use anyhow::Context;
use collie_env::Env;
use postgres::Client;

/// The number of machines: three nodes, or two and a witness, which is the last one.
pub(crate) const COUNT: usize = 3;

/// The number of nodes if there is a witness.
pub(crate) const WITNESSED: usize = 2;

/// The names of their slots.
pub(crate) const NAMES: [&str; COUNT] = ["a", "b", "c"];

/// The node that was promoted, or the reason why none was.
pub(crate) type Promotion = Result<usize, String>;

/// The reason why the nodes are not in one state.
pub(crate) enum NotYet {
    /// They are not equal yet.
    Unequal(String),
    /// They can never become equal.
    Wrong(anyhow::Error),
}

/// See the module's documentation.
pub(crate) trait Trio {
    /// Returns the number of nodes, which are the first machines: all, or all but the witness.
    fn count(&self) -> usize;

    /// Connects to a node.
    ///
    /// # Errors
    /// The node does not exist, is frozen, or has no open database.
    fn connect(&self, node: usize) -> anyhow::Result<Client>;

    /// Returns a node's data directory.
    fn data(&self, node: usize) -> PathBuf;

    /// Returns the environment with a node's files.
    fn env(&self, node: usize) -> Env;

    /// Returns the nodes that say that they lead.
    fn leading(&self) -> Vec<usize> {
        let leads = |node: &usize| {
            let asked = self
                .connect(*node)
                .and_then(|mut client| Ok(client.query_one("SELECT pg_is_in_recovery()", &[])?.get::<_, bool>(0)));
            asked.is_ok_and(|follows| !follows)
        };
        (0..self.count()).filter(leads).collect()
    }

    /// Promotes a node, or the node that its refusal names because that has more of the log.
    fn promote(&self, node: usize) -> Promotion {
        let mut node = node;
        for _ in 0..COUNT {
            let mut client = self.connect(node).map_err(|error| format!("{error:#}"))?;
            let refused = match client.query_one("SELECT pg_catalog.collie_promote(false)", &[]) {
                Ok(_) => return Ok(node),
                Err(error) => error.as_db_error().map_or(error.to_string(), |told| told.message().to_owned()),
            };
            let named = refused.split_once(" has come further").map(|(name, _)| name);
            match named.and_then(|name| NAMES.iter().position(|other| *other == name)) {
                Some(further) if further != node => node = further,
                _ => return Err(format!("{}: {refused}", NAMES[node])),
            }
        }
        Err("each names another".to_owned())
    }

    /// Compares all nodes with the leader.
    fn states(&self, leader: usize) -> Result<(), NotYet> {
        let unequal = |why: String| Err(NotYet::Unequal(why));
        let state = |node: usize| {
            self.connect(node).and_then(|mut client| {
                let state: String = client.query_one("SELECT collie_state_hash()", &[])?.get(0);
                let (position, hash) = state.rsplit_once(':').context("position:hash")?;
                Ok((position.to_owned(), hash.to_owned()))
            })
        };
        let expected = match state(leader) {
            Ok(state) => state,
            Err(error) => return unequal(format!("{error:#}")),
        };
        for node in (0..self.count()).filter(|node| *node != leader) {
            let (leads, follows) = (NAMES[leader], NAMES[node]);
            match state(node) {
                Err(error) => return unequal(format!("{error:#}")),
                Ok(found) if found.1 == expected.1 => {}
                Ok(found) if found.0 == expected.0 => {
                    let text = format!("{leads} and {follows} differ at one position: {expected:?} and {found:?}");
                    return Err(NotYet::Wrong(anyhow::anyhow!(text)));
                }
                Ok(found) => return unequal(format!("{leads} has {expected:?}, {follows} {found:?}")),
            }
        }
        Ok(())
    }
}
