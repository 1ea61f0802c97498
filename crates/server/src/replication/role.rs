//! [`Role`]: the role in which a node is opened: primary, or replica of the node that leads.
//!
//! | the directory | and | opened as |
//! |---|---|---|
//! | holds no database | `--replica-of` | replica |
//! | | | primary, of a new database |
//! | follows | a node to ask is named | replica |
//! | | none is named | refused: see `EngineError::Follows` |
//! | leads in the term of its promotion | no peer has promised a higher one | primary, also with `--replica-of` |
//! | leads in another | `--replica-of`, or a peer or itself promised a higher term, or it yielded | replica |
//! | | | primary |
//!
//! # Invariants
//! - O1. A node that has promised a higher term than the one in which it led, or learns of one before it is open, does
//!   not lead (REPL-8).

use std::{fmt::Write as _, path::Path, sync::Arc};

use collie_base::{Lsn, Term};
use collie_engine::{DirectoryIdentity, EngineError, HistoryStart, Promise};
use collie_env::Env;
use collie_replica::{
    key::KeyFile,
    packet::TermKind,
    term::{Reach, Standing, Terms, is_absurd},
};
use tokio::runtime::Runtime;

use super::{candidate::absurd, key, peers::Addresses};
use crate::config::{Peer, Peers};
use crate::{ServeError, config::Config, log_lines};

/// See the module's documentation.
pub(crate) enum Role {
    /// The node leads.
    Primary,
    /// The node follows the one of these that leads.
    Replica(Arc<Addresses>),
}

fn open_error(error: EngineError) -> ServeError {
    ServeError::Open(error.into())
}

/// Returns the name by which other nodes know this one.
pub(crate) fn name_of(config: &Config, node: u64) -> String {
    match config.replication.slot.as_str() {
        "" => format!("node-{node:016x}"),
        name => name.to_owned(),
    }
}

/// Determines the role of the node in the directory `data`; asks the other nodes, if there are any, which recognize it
/// by the key `own`.
///
/// # Errors
/// The directory cannot be read; it has to follow, and no node is named; the key cannot be used.
pub(crate) fn choose(
    runtime: &Runtime,
    config: &Config,
    (data, own): (&Path, &KeyFile),
    env: &Env,
) -> Result<Role, ServeError> {
    // An unusable key is an error before any node is contacted (Y2 of `key.rs`).
    key::check(own, config)?;
    let replication = &config.replication;
    let addresses = Addresses::new(replication.primary.as_deref(), &replication.peers);
    let replica = || Ok(Role::Replica(Arc::new(addresses)));
    let named = replication.primary.is_some();
    if config.engine.read_only {
        return if named { replica() } else { Ok(Role::Primary) };
    }
    let Some(who) = DirectoryIdentity::read(data, env).map_err(open_error)? else {
        return if named { replica() } else { Ok(Role::Primary) };
    };
    let DirectoryIdentity { cluster_id, node_id: node, term, follows, histories } = who;
    let can_ask = named || !replication.peers.0.is_empty();
    // A replica leads only after a promotion.
    if follows {
        return if can_ask { replica() } else { Err(open_error(EngineError::Follows { path: data.to_owned() })) };
    }
    // O1: its own promise is checked first.
    let promise = Promise::read(env, data).map_err(open_error)?;
    let was_yielded = promise.term == term && ![0, node].contains(&promise.node);
    if promise.term > term || was_yielded {
        let (promised, mut message) = (promise.term, String::new());
        _ = write!(
            message,
            "this node has promised term {promised} to another, and leads in term {term} no more: name the others (replication.peers), or the \
             one that leads (--replica-of)"
        );
        if is_absurd(promised, term) {
            _ = write!(
                message,
                "; if no node leads in such a term: collie promote --force-term {term} --data {}",
                data.display()
            );
        }
        return if can_ask { replica() } else { Err(ServeError::Replication { message }) };
    }
    // Only a promotion in this term outweighs `--replica-of`.
    let was_promoted = promise.term == term && promise.node == node;
    if named && !was_promoted {
        return replica();
    }
    if !can_ask {
        return Ok(Role::Primary);
    }
    // O1: peers are asked before this node leads.
    let terms = Terms::open(env, data, node, term).map_err(open_error)?;
    terms.lead(term);
    let higher = runtime.block_on(ask(&terms, (config, own), (cluster_id, term), histories.last(), node))?;
    match higher {
        Some(higher) => {
            log_lines::warn(&format_args!(
                "term {higher} has begun: this node, which led in term {term}, follows its primary"
            ));
            replica()
        }
        None => {
            if named {
                log_lines::warn(&format_args!(
                    "this node was promoted and leads in term {term}: --replica-of counts again once another one leads"
                ));
            }
            Ok(Role::Primary)
        }
    }
}

/// Returns the other nodes that a configuration names.
pub(crate) fn others(config: &Config) -> Peers {
    let mut others = config.replication.voters();
    if let Some(address) = &config.replication.primary
        && others.0.iter().all(|peer| peer.address != *address)
    {
        others.0.push(Peer::new("--replica-of", address));
    }
    others
}

/// Announces to all other nodes that this one leads; returns a higher term that one of them has promised.
async fn ask(
    terms: &Terms,
    (config, own): (&Config, &KeyFile),
    (cluster, term): (u128, Term),
    last: Option<&HistoryStart>,
    node: u64,
) -> Result<Option<Term>, ServeError> {
    let Some(last) = last else { return Ok(None) };
    let reach = Reach { last_term: term, durable: Lsn::ZERO };
    let standing = Standing { reach, history: last.history, leads: true };
    let packet = terms.packet(TermKind::Announce, term, &standing);
    let answers = others(config).ask(&name_of(config, node), cluster, own, &packet).await;
    let mut higher = None;
    for (peer, answer) in answers {
        match answer {
            Ok(answer) if terms.is_absurd(answer.term) => {
                log_lines::warn(&format_args!("{}", absurd(&peer.name, answer.term, term)))
            }
            Ok(answer) => higher = higher.max(Some(answer.term)),
            Err(_) => {}
        }
    }
    let Some(higher) = higher.filter(|higher| *higher > term) else { return Ok(None) };
    tokio::task::block_in_place(|| terms.promise(higher, 0)).map_err(open_error)?;
    Ok(Some(higher))
}
