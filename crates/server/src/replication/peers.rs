//! [`Peers`]: the other nodes, as `replication.peers` names them.

use std::{
    str::FromStr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use collie_replica::{
    LinkError,
    key::{KeyFile, Trusted},
    packet::TermPacket,
    standby::{connect, connect_for_terms},
    term::ask,
};
use tokio::{net::TcpStream, task::JoinSet};

/// How long a node may take to answer: a promise takes a flush and a file.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The name of its slot, by which lists of replicas name it.
    pub name: String,
    /// The address at which it listens for replicas, host and port.
    pub address: String,
    /// It promises terms and keeps no data.
    pub is_witness: bool,
}

impl Peer {
    /// Returns the node that has this name in lists and listens at `address`.
    pub fn new(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self { name: name.into(), address: address.into(), is_witness: false }
    }

    /// Returns the witness that listens at `address`.
    pub fn witness(address: &str) -> Self {
        Self { is_witness: true, ..Self::new("the witness", address) }
    }
}

/// The other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers(pub Vec<Peer>);

impl FromStr for Peers {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = "expected NAME=HOST:PORT, ..., as in a=127.0.0.1:5434, b=127.0.0.1:5444";
        let peer = |text: &str| {
            let (name, address) = text.split_once('=').ok_or(wanted)?;
            let (name, address) = (name.trim(), address.trim());
            let port = address.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then_some(port));
            match port.map(str::parse::<u16>) {
                Some(Ok(_)) if !name.is_empty() => Ok(Peer::new(name, address)),
                _ => Err(wanted),
            }
        };
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let peers = parts.map(peer).collect::<Result<Vec<_>, _>>()?;
        let is_twice = |(at, peer): (usize, &Peer)| peers.iter().take(at).any(|other| other.name == peer.name);
        if peers.iter().enumerate().any(is_twice) {
            return Err("one name stands for two nodes");
        }
        Ok(Self(peers))
    }
}

impl Peers {
    /// Sends `packet` to all of them in parallel; returns their answers, in the order of the list.
    pub(crate) async fn ask(
        &self,
        own: &str,
        cluster: u128,
        key: &KeyFile,
        packet: &TermPacket,
    ) -> Vec<(Peer, Result<TermPacket, LinkError>)> {
        let mut asking = JoinSet::new();
        for (number, peer) in self.0.iter().cloned().enumerate() {
            let (own, key, packet) = (own.to_owned(), key.clone(), *packet);
            asking.spawn(async move {
                let answered = async {
                    let io = connect_for_terms(&peer.address, &own, cluster, &key, ANSWER_TIME).await?;
                    ask(io, &packet, ANSWER_TIME).await
                };
                let answer = answered.await;
                (number, peer, answer)
            });
        }
        let mut answers = Vec::new();
        while let Some(joined) = asking.join_next().await {
            answers.extend(joined);
        }
        answers.sort_unstable_by_key(|(number, ..)| *number);
        answers.into_iter().map(|(_, peer, answer)| (peer, answer)).collect()
    }

    /// Returns those that can be reached now.
    pub(crate) async fn reached(&self, own: &str, cluster: u128, key: &KeyFile) -> Vec<Peer> {
        let mut reaching = JoinSet::new();
        for peer in self.0.iter().cloned() {
            let (own, key) = (own.to_owned(), key.clone());
            reaching.spawn(async move {
                connect_for_terms(&peer.address, &own, cluster, &key, ANSWER_TIME).await.is_ok().then_some(peer)
            });
        }
        let mut reached = Vec::new();
        while let Some(joined) = reaching.join_next().await {
            reached.extend(joined.ok().flatten());
        }
        reached
    }
}

/// The addresses at which a replica looks for its primary, tried in turn, beginning with the one that was a primary
/// last.
#[derive(Debug)]
pub(crate) struct Addresses {
    all: Vec<String>,
    /// The index of the first one to try.
    next: AtomicUsize,
}

impl Addresses {
    /// Makes a list of `primary`, if it is named, and then `peers`.
    pub(crate) fn new(primary: Option<&str>, peers: &Peers) -> Self {
        let mut all: Vec<String> = primary.into_iter().map(str::to_owned).collect();
        for peer in &peers.0 {
            if !all.contains(&peer.address) {
                all.push(peer.address.clone());
            }
        }
        Self { all, next: AtomicUsize::new(0) }
    }

    /// Returns the address that is tried first.
    pub(crate) fn first(&self) -> &str {
        let next = self.next.load(Ordering::Relaxed);
        self.all.get(next).map_or("", String::as_str)
    }

    /// Connects to the first one that accepts replicas.
    ///
    /// # Errors
    /// The error of the first attempt, if none of them does.
    pub(crate) async fn connect(&self, slot: &str, key: &KeyFile) -> Result<Trusted<TcpStream>, LinkError> {
        let (first, count) = (self.next.load(Ordering::Relaxed), self.all.len());
        let mut failed = None;
        for number in (first..first + count).map(|number| number % count) {
            let Some(address) = self.all.get(number) else { break };
            match connect(address, slot, key).await {
                Ok(io) => {
                    self.next.store(number, Ordering::Relaxed);
                    return Ok(io);
                }
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        Err(failed.unwrap_or(LinkError::Closed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: lists of nodes are parsed, and mistakes refused. Method: each kind.
    #[test]
    fn peers_are_read_by_name_and_address() {
        let peers: Peers = "a=127.0.0.1:5434, b = host:1".parse().unwrap();
        assert_eq!(peers, Peers(vec![Peer::new("a", "127.0.0.1:5434"), Peer::new("b", "host:1")]));
        assert_eq!("".parse::<Peers>(), Ok(Peers::default()));
        for bad in ["a", "a=host", "=host:1", "a=:1", "a=host:x", "a=host:70000", "a=h:1, a=h:2"] {
            assert!(bad.parse::<Peers>().is_err(), "{bad}");
        }
        let addresses = Addresses::new(Some("host:1"), &peers);
        assert_eq!((addresses.all.len(), addresses.first()), (2, "host:1"));
    }
}
