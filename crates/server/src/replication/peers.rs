//! Questions to all other nodes, and the addresses at which a replica looks for its primary.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use crate::config::{Peer, Peers};
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

    /// Goal: an address is tried once, the named primary's first. Method: a primary that is a peer too.
    #[test]
    fn each_address_is_listed_once() {
        let peers: Peers = "a=127.0.0.1:5434, b = host:1".parse().unwrap();
        let addresses = Addresses::new(Some("host:1"), &peers);
        assert_eq!((addresses.all.len(), addresses.first()), (2, "host:1"));
    }
}
