//! `Node`: a node of a tree, 16 bytes.

/// Most trees of a model.
pub(in crate::model) const TREES_MAX: usize = 64;

/// Most splits from a root to a leaf.
pub(in crate::model) const DEPTH_MAX: u32 = 6;

/// Most nodes of a tree: a full one of the greatest depth.
pub(in crate::model) const NODES_PER_TREE_MAX: usize = (1 << (DEPTH_MAX + 1)) - 1;

/// The size of a node in bytes, in memory and in a package.
pub(in crate::model) const NODE_BYTES: usize = 16;

/// The feature number that marks a leaf.
pub(in crate::model) const LEAF: u16 = 0xFFFF;

/// A split or a leaf.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Node {
    /// Of a split: rows whose feature is at most this go left. Of a leaf: the amount that it adds.
    pub value: f64,
    /// The number of the feature that a split compares; 0xFFFF for a leaf.
    pub feature: u16,
    /// Always 0.
    pub pad: u16,
    /// The index of the left child; the right one is the next. 0 for a leaf.
    pub left: u32,
}

const _: () = assert!(size_of::<Node>() == NODE_BYTES);

impl Node {
    /// Returns a leaf that adds `value`.
    pub(super) const fn leaf(value: f64) -> Self {
        Self { value, feature: LEAF, pad: 0, left: 0 }
    }
}
