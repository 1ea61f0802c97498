//! The head of a row's chain: a pointer to the newest version, and in its lowest bits the tags that must change with
//! it.

use std::ptr;

use super::version::Version;

/// A transaction may hold the row in shared strength: a writer must look before putting a version on top (R6).
const SHARED: usize = 1;
const TAGS: usize = 7;
const _: () = assert!(align_of::<Version>() > TAGS, "the tags lie in bits that no address of a version has");

/// The head of a row that left the index (R5). It never has another tag.
pub(super) const DEAD: *mut Version = ptr::without_provenance_mut(4);

/// Returns the newest version, or null: a head without its tags, a link unchanged.
pub(super) fn version_of(head: *mut Version) -> *mut Version {
    head.map_addr(|address| address & !TAGS)
}

pub(super) fn is_shared(head: *mut Version) -> bool {
    head.addr() & SHARED != 0
}

pub(super) fn shared(head: *mut Version) -> *mut Version {
    head.map_addr(|address| address | SHARED)
}

pub(super) fn not_shared(head: *mut Version) -> *mut Version {
    head.map_addr(|address| address & !SHARED)
}

/// Returns `version` with the tags of `head`.
pub(super) fn with_tags_of(version: *mut Version, head: *mut Version) -> *mut Version {
    version.map_addr(|address| address | head.addr() & TAGS)
}
