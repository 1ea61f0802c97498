//! [`Peers`]: the other nodes, as `replication.peers` names them.

use std::str::FromStr;

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
    }
}
