//! `Stock`: the sample files with their sizes, oldest first.

use std::collections::BTreeMap;

use crate::{FileName, SampleDir, SamplesError};

/// Every sample file under a data directory, of any node.
#[derive(Debug, Default)]
pub(crate) struct Stock {
    bytes_by_name: BTreeMap<FileName, u64>,
    bytes: u64,
}

impl Stock {
    /// Lists the files of `dir`.
    pub(crate) fn of(dir: &SampleDir) -> Result<Self, SamplesError> {
        let mut stock = Self::default();
        for name in dir.list()? {
            let bytes = dir.bytes_of(&name);
            stock.add(name, bytes);
        }
        Ok(stock)
    }

    /// Returns the highest number among the files of `node`.
    pub(crate) fn last_seq(&self, node: &str) -> u64 {
        let of_node = self.bytes_by_name.keys().filter(|name| name.node == node);
        of_node.map(|name| name.seq).max().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, name: FileName, bytes: u64) {
        self.bytes += bytes;
        let before = self.bytes_by_name.insert(name, bytes);
        self.bytes -= before.unwrap_or(0);
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Removes the oldest file from the list and returns it while there are more than `bytes_max` bytes, but never the
    /// last file.
    pub(crate) fn pop_oldest_above(&mut self, bytes_max: u64) -> Option<FileName> {
        if self.bytes <= bytes_max || self.bytes_by_name.len() < 2 {
            return None;
        }
        let (name, bytes) = self.bytes_by_name.pop_first()?;
        self.bytes -= bytes;
        Some(name)
    }
}
