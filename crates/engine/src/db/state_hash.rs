//! The state hash: one number for all rows at a snapshot, by which two databases are compared.
//!
//! It is the sum, modulo 2^64, of the hashes of all rows, so rows may be visited in any order and by any number of
//! threads. The hash of a row takes these words, little-endian: family, commit position, length of the key, length of
//! the value, and the key and the value in groups of eight bytes, each padded with zeros. Each word is mixed in by `h =
//! (h ^ word) * 0x9E3779B97F4A7C15`, `h ^= h >> 32`; the hash begins at 0 and ends with the finalizer of SplitMix64.
//! Both nodes must agree on every bit, so this never changes. It finds faults, and is no defence against deliberate
//! changes.

use collie_base::{CfId, Lsn};
use collie_store::{Family, Resolve, State};

use crate::families::Families;

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 32
}

fn mix_bytes(hash: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(hash, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash, u64::from_le_bytes(word))
    })
}

/// Returns the hash of one row.
fn row_hash(cf: CfId, state: State<'_>) -> u64 {
    let State { key, value, csn } = state;
    let words = [u64::from(cf.get()), csn.get(), key.len() as u64, value.len() as u64];
    let hash = words.into_iter().fold(0, mix);
    let mut hash = mix_bytes(mix_bytes(hash, key), value);
    hash = (hash ^ hash >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ hash >> 31
}

/// Returns the hash of the rows of all families except `skipped`, after the commits below `snapshot`. The caller holds
/// that snapshot.
pub(crate) fn state_hash(families: &Families, snapshot: Lsn, fates: &impl Resolve, skipped: &[CfId]) -> u64 {
    let all = families.all();
    let counted = all.iter().filter(|family| !skipped.contains(&family.id()));
    counted.map(|family| family_hash(family, snapshot, fates)).fold(0, u64::wrapping_add)
}

/// Returns the hash of the rows of one family.
pub(crate) fn family_hash(family: &Family, snapshot: Lsn, fates: &impl Resolve) -> u64 {
    let mut sum = 0_u64;
    family.states(snapshot, fates, &mut |state| sum = sum.wrapping_add(row_hash(family.id(), state)));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the hash is the documented one, on every machine and in every version, and each part of a row counts.
    /// Method: a known value; rows that differ in one part, or in the end of the key.
    #[test]
    fn row_hash_is_fixed_and_takes_each_part() {
        let of = |cf, key: &[u8], value: &[u8], csn| row_hash(CfId::new(cf), State { key, value, csn: Lsn::new(csn) });
        assert_eq!(of(1, b"key", b"value", 5000), 5_000_903_396_801_990_201);
        let rows = [
            of(1, b"key", b"value", 5000),
            of(2, b"key", b"value", 5000),
            of(1, b"kez", b"value", 5000),
            of(1, b"key", b"valuf", 5000),
            of(1, b"key", b"value", 5001),
            of(1, b"keyv", b"alue", 5000),
            of(1, b"key\0", b"value", 5000),
            of(1, b"key", b"value\0", 5000),
            of(1, b"", b"keyvalue", 5000),
        ];
        for (number, row) in rows.iter().enumerate() {
            assert!(rows[..number].iter().all(|other| other != row), "row {number}");
        }
    }
}
