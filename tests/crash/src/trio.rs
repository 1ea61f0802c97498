//! [`Trio`]: three nodes that know each other, wherever they run: in processes of their own (`failover::nodes`), or in a simulation
//! (`cluster::nodes`).

use std::path::PathBuf;

use anyhow::Context;
use collie_env::Env;
use postgres::Client;

/// How many nodes there are.
pub(crate) const COUNT: usize = 3;

/// Their slots.
pub(crate) const NAMES: [&str; COUNT] = ["a", "b", "c"];

/// A node that was promoted, or why none was.
pub(crate) type Promotion = Result<usize, String>;

/// Why the nodes are not in one state.
pub(crate) enum NotYet {
    /// They may be, soon.
    Unequal(String),
    /// They never will be.
    Wrong(anyhow::Error),
}

/// See the module's documentation.
pub(crate) trait Trio {
    /// Connects to a node that answers.
    ///
    /// # Errors
    /// It is not there, frozen, or has no database for now.
    fn connect(&self, node: usize) -> anyhow::Result<Client>;

    /// Returns a node's data directory.
    fn data(&self, node: usize) -> PathBuf;

    /// Returns where a node's files are.
    fn env(&self, node: usize) -> Env;

    /// Returns those that say that they lead.
    fn leading(&self) -> Vec<usize> {
        let leads = |node: &usize| {
            let asked = self
                .connect(*node)
                .and_then(|mut client| Ok(client.query_one("SELECT pg_is_in_recovery()", &[])?.get::<_, bool>(0)));
            asked.is_ok_and(|follows| !follows)
        };
        (0..COUNT).filter(leads).collect()
    }

    /// Asks a node to be promoted, and the one that it names instead if that has come further.
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

    /// Compares all with the one that leads.
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
        for node in (0..COUNT).filter(|node| *node != leader) {
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
