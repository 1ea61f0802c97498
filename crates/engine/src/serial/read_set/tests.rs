//! Tests of the read set against a plain set of keys.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const F: CfId = CfId::new(1);
const G: CfId = CfId::new(2);

#[derive(Clone, Debug)]
enum Read {
    Key(u8),
    Range { start: Bound<u8>, end: Bound<u8>, reverse: bool, stop: Option<u8> },
}

fn bound() -> impl Strategy<Value = Bound<u8>> {
    prop_oneof![
        2 => (0..40_u8).prop_map(Bound::Included),
        2 => (0..40_u8).prop_map(Bound::Excluded),
        1 => Just(Bound::Unbounded),
    ]
}

fn read() -> impl Strategy<Value = (CfId, Read)> {
    let one = prop_oneof![
        3 => (0..40_u8).prop_map(Read::Key),
        1 => (bound(), bound(), any::<bool>(), proptest::option::of(0..40_u8))
            .prop_map(|(start, end, reverse, stop)| Read::Range { start, end, reverse, stop }),
    ];
    (prop_oneof![Just(F), Just(G)], one)
}

fn within(start: Bound<u8>, end: Bound<u8>, key: u8) -> bool {
    (match start {
        Bound::Included(at) => key >= at,
        Bound::Excluded(at) => key > at,
        Bound::Unbounded => true,
    }) && (match end {
        Bound::Included(at) => key <= at,
        Bound::Excluded(at) => key < at,
        Bound::Unbounded => true,
    })
}

/// Applies `read` to the set and returns the keys that it covers.
fn apply(set: &mut ReadSet, cf: CfId, read: &Read) -> Vec<u8> {
    match *read {
        Read::Key(key) => {
            set.read_key(cf, &[key]).unwrap();
            vec![key]
        }
        Read::Range { start, end, reverse, stop } => {
            // A scan stops at a key of its range.
            let stop = stop.filter(|key| within(start, end, *key));
            let (low, high) = (start.map(|key| [key]), end.map(|key| [key]));
            let span =
                Span { start: low.as_ref().map(|key| &key[..]), end: high.as_ref().map(|key| &key[..]), reverse };
            set.read_range(cf, span, stop.map(|key| [key]).as_ref().map(|key| &key[..])).unwrap();
            let passed = |key: u8| stop.is_none_or(|stop| if reverse { key >= stop } else { key <= stop });
            (0..40).filter(|key| within(start, end, *key) && passed(*key)).collect()
        }
    }
}

fn kept(set: &ReadSet, cf: CfId) -> Vec<u8> {
    (0..40).filter(|key| set.holds(cf, &[*key])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Goal: the set contains the keys that were read (D1), and no others while there is room; joining touching
    /// pieces changes nothing. Method: random reads of two families against sets of keys.
    #[test]
    fn read_set_holds_exactly_what_was_read_while_there_is_room(reads in proptest::collection::vec(read(), 1..40)) {
        let mut set = ReadSet::default();
        let mut model = [BTreeSet::new(), BTreeSet::new()];
        for (cf, read) in &reads {
            let keys = apply(&mut set, *cf, read);
            model[usize::from(*cf == G)].extend(keys);
        }
        for joined in [false, true] {
            if joined {
                set.families.values_mut().for_each(join_touching);
                for pieces in set.families.values() {
                    prop_assert!(pieces.windows(2).all(|two| !two[0].touches(&two[1])), "{:?}", pieces);
                }
            }
            for (i, cf) in [F, G].into_iter().enumerate() {
                prop_assert_eq!(&kept(&set, cf), &model[i].iter().copied().collect::<Vec<_>>());
            }
        }
    }

    /// Goal: at the limit the set loses no key that was read, and its memory stays within the limit (D1, D2).
    /// Method: random reads with room for five pieces; the sizes are counted again after each.
    #[test]
    fn full_read_set_grows_coarser_and_forgets_nothing(reads in proptest::collection::vec(read(), 1..80)) {
        let mut set = ReadSet::within(5 * (size_of::<Piece>() + 2));
        let mut model = [BTreeSet::new(), BTreeSet::new()];
        for (cf, read) in &reads {
            let keys = apply(&mut set, *cf, read);
            model[usize::from(*cf == G)].extend(keys);
            prop_assert!(set.bytes <= set.limit);
            prop_assert_eq!(set.bytes, set.families.values().flatten().map(Piece::bytes).sum::<usize>());
        }
        for (i, cf) in [F, G].into_iter().enumerate() {
            let held = kept(&set, cf);
            prop_assert!(model[i].iter().all(|key| held.contains(key)), "{:?} lost some of {:?}", held, model[i]);
        }
    }
}

/// Goal: reads of more tables than the limit has room for are refused, not forgotten. Method: one key of each
/// family.
#[test]
fn too_many_families_are_refused() {
    let mut set = ReadSet::within(10 * (size_of::<Piece>() + 1));
    let refused = (1..100).find(|cf| set.read_key(CfId::new(*cf), b"k").is_err());
    assert_eq!(refused, Some(11));
    assert!(matches!(set.read_key(CfId::new(200), b"k"), Err(EngineError::TransactionLimit { .. })));
}

/// Goal: a scan in batches takes the room of one range, in both directions. Method: 1000 batches, each of which
/// continues after the last key of the previous one.
#[test]
fn batches_of_a_scan_are_one_piece() {
    for reverse in [false, true] {
        let mut set = ReadSet::default();
        let keys: Vec<[u8; 2]> = (0..1000_u16).map(u16::to_be_bytes).collect();
        let ordered: Vec<&[u8; 2]> = if reverse { keys.iter().rev().collect() } else { keys.iter().collect() };
        let whole = Span { start: Bound::Unbounded, end: Bound::Unbounded, reverse };
        let mut span = whole;
        for key in ordered {
            set.read_range(F, span, Some(key)).unwrap();
            span = whole.after(key);
        }
        assert_eq!(set.families[&F].len(), 1);
        assert!(set.holds(F, &keys[0]) && set.holds(F, &keys[999]));
        assert!(!set.holds(F, if reverse { &[] } else { &[255, 255] }), "the scan did not get there");
    }
}

/// Goal: catalog rows, which locks protect, are not in the set (D4). Method: both kinds of reads.
#[test]
fn catalog_is_not_kept() {
    let mut set = ReadSet::default();
    set.read_key(CfId::CATALOG, b"k").unwrap();
    let all = Span { start: Bound::Unbounded, end: Bound::Unbounded, reverse: false };
    set.read_range(CfId::CATALOG, all, None).unwrap();
    assert_eq!((set.bytes, set.holds(CfId::CATALOG, b"k")), (0, false));
}
