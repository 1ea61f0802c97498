//! [`Templates`]: the texts that both ends of a connection know, each under its hash.
//!
//! # Invariants
//! - M1. Both ends put the same templates in the same order, and forget all of them before one that would exceed a
//!   limit: so the receiver has every template that the sender has put and not forgotten.

use collie_base::Map;

/// The most templates that are remembered.
const TEMPLATES_MAX: usize = 1024;

/// The most bytes of their texts.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Templates<T> {
    known: Map<u64, T>,
    text_bytes: usize,
}

impl<T> Default for Templates<T> {
    fn default() -> Self {
        Self { known: Map::default(), text_bytes: 0 }
    }
}

impl<T> Templates<T> {
    /// Returns the template with a hash.
    pub fn get(&self, hash: u64) -> Option<&T> {
        self.known.get(&hash)
    }

    /// Returns whether a text of this many bytes would make it forget all templates.
    pub fn is_full_for(&self, text_bytes: usize) -> bool {
        self.known.len() >= TEMPLATES_MAX || self.text_bytes.saturating_add(text_bytes) > TEXT_BYTES_MAX
    }

    /// Puts a template (M1).
    pub fn put(&mut self, hash: u64, text_bytes: usize, template: T) {
        if self.is_full_for(text_bytes) {
            *self = Self::default();
        }
        self.text_bytes = self.text_bytes.saturating_add(text_bytes);
        self.known.insert(hash, template);
    }
}
