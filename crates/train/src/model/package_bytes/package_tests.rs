//! Packages survive encoding and decoding, and other bytes are refused.
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "tests may panic")]

use proptest::prelude::*;

use super::*;
use crate::model::{Wanted, sample_package};

/// Goal: a package reads back bit by bit and predicts the same. Method: a package of each kind.
#[test]
fn packages_round_trip() {
    for of_trees in [false, true] {
        let package = sample_package(of_trees);
        let bytes = package.encode();
        let read = Package::decode(&bytes).unwrap();
        assert_eq!(read, package);
        assert_eq!(read.encode(), bytes);
        assert_eq!(read.hash(), package.hash());
        assert_eq!(read.predict(&[3.0, 2.0]).unwrap(), package.predict(&[3.0, 2.0]).unwrap());
        fuzz_package(&bytes);
    }
    assert_ne!(sample_package(false).hash(), sample_package(true).hash());
}

/// Goal: the bytes are the documented ones. Method: the offsets of docs/format.md are checked in a package of trees.
#[test]
fn model_package_has_its_documented_bytes() {
    let package = sample_package(true);
    let bytes = package.encode();
    assert_eq!(&bytes[..8], b"COLLIEMP");
    assert_eq!(bytes[12..16], [1, 0, 0, 0]);
    assert_eq!(bytes[16..24], package.hash().to_le_bytes());
    assert_eq!(bytes[24..28], [13, 0, 1, b'B']);
    assert_eq!(bytes[28..36], 0x1122_3344_5566_7788_u64.to_le_bytes());
    assert_eq!(bytes[36..44], 1_700_000_000_000_000_u64.to_le_bytes());
    assert_eq!(bytes[52..60], 60_u64.to_le_bytes());
    let Model::Trees(trees) = &package.fitted.model else { panic!("a package of trees") };
    let last = trees.nodes[trees.nodes.len() - 1];
    let end = &bytes[bytes.len() - NODE_BYTES..];
    assert_eq!(end[..8], last.value.to_bits().to_le_bytes());
    assert_eq!(end[8..], [0xFF, 0xFF, 0, 0, 0, 0, 0, 0], "the last node is a leaf");
}

/// Goal: damage is noticed. Method: every bit of a package is flipped, and it is cut at every length.
#[test]
fn every_flipped_bit_and_every_cut_is_refused() {
    let bytes = sample_package(true).encode();
    for at in 0..bytes.len() {
        assert!(Package::decode(&bytes[..at]).is_err(), "cut at {at}");
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            assert!(Package::decode(&flipped).is_err(), "bit {bit} of byte {at}");
        }
    }
}

/// Goal: a newer format and a wrong hash are distinguished from damage. Method: a package with each of them and a right
/// checksum.
#[test]
fn foreign_packages_are_refused_with_a_reason() {
    let good = sample_package(false).encode();
    let mut newer = good.clone();
    newer[12] = 2;
    seal_package(&mut newer);
    assert_eq!(Package::decode(&newer), Err(TrainError::Version { found: 2 }));
    let mut hash = good.clone();
    hash[16] ^= 1;
    let crc = crc32c(&hash[12..]);
    hash[8..12].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Package::decode(&hash), Err(TrainError::Malformed { what: "hash" }));
    let mut damaged = good;
    damaged[40] ^= 1;
    assert!(matches!(Package::decode(&damaged), Err(TrainError::Checksum { .. })));
}

/// Goal: RT11. Method: one condition changed at a time, and errors on either side of the limit.
#[test]
fn packages_for_something_else_or_worse_ones_are_not_admitted() {
    let package = sample_package(true);
    let error = package.fitted.error();
    let wanted = Wanted { unit: package.unit, label: package.label, schema: package.schema, incumbent_error: None };
    assert_eq!(package.admit(&wanted), Ok(()));
    assert!(matches!(package.admit(&Wanted { unit: UnitId::new(14), ..wanted }), Err(TrainError::Unit { .. })));
    assert!(matches!(package.admit(&Wanted { label: LabelId::new(1), ..wanted }), Err(TrainError::Unit { .. })));
    let schema = SchemaHash::new(1);
    assert!(matches!(package.admit(&Wanted { schema, ..wanted }), Err(TrainError::Schema { .. })));
    assert!(error > 0.0);
    let beside = |incumbent: f64| package.admit(&Wanted { incumbent_error: Some(incumbent), ..wanted });
    assert_eq!(beside(error / 1.09), Ok(()));
    assert!(matches!(beside(error / 1.11), Err(TrainError::Worse { .. })));
}

proptest! {
    /// Goal: M3. Method: a package with a few bytes replaced and its hash and checksum corrected, so that every later
    /// check is reached.
    #[test]
    fn malformed_packages_never_panic(of_trees: bool, edits in prop::collection::vec((any::<u16>(), any::<u8>()), 1..6), cut: u16) {
        let mut bytes = sample_package(of_trees).encode();
        for (at, byte) in edits {
            let len = bytes.len() - HEADER_BYTES;
            bytes[HEADER_BYTES + usize::from(at) % len] = byte;
        }
        if cut % 4 == 0 {
            let len = bytes.len() - HEADER_BYTES;
            bytes.truncate(HEADER_BYTES + usize::from(cut) % len);
        }
        seal_package(&mut bytes);
        fuzz_package(&bytes);
    }

    /// Goal: M3 for arbitrary bytes. Method: random ones.
    #[test]
    fn garbage_never_panics(bytes: Vec<u8>) {
        fuzz_package(&bytes);
    }
}
