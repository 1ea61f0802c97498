//! The head of a row's chain: the newest version, and in the lowest bits of the same word what must change with it.

use std::ptr;

use super::version::Version;

/// Somebody may hold the row in shared strength: look before putting a version on top (R6).
const SHARED: usize = 1;
const TAGS: usize = 7;
const _: () = assert!(align_of::<Version>() > TAGS, "the tags lie in bits that no address of a version has");

/// The head of a row that left the index (R5). It has no other tag, now or later.
pub(super) const DEAD: *mut Version = ptr::without_provenance_mut(4);

/// Returns the newest version, or null: of a head, tags taken off; of a link as it is.
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
