//! Compares the declaration with the golden file and the document.

use std::{fmt::Write as _, fs, path::PathBuf};

use super::*;

const BEGIN: &str = "<!-- units begin -->\n";
const END: &str = "<!-- units end -->\n";
const AGAIN: &str = "run UPDATE_GOLDEN=1 cargo test -p collie-obs units; a changed meaning needs a new version";

fn path(relative: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn is_updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

fn fields(fields: &[FieldSchema]) -> String {
    fields.iter().map(|field| format!("{} {}", field.name, field.unit)).collect::<Vec<_>>().join(", ")
}

/// Goal: the names and numbers by which other versions and programs read files do not change unnoticed. Method: the
/// declaration as text, against the golden file.
#[test]
fn units_are_those_of_the_golden_file() {
    let mut text = String::new();
    for unit in UNITS {
        writeln!(text, "{} v{} {}", unit.id, unit.version, unit.name).expect("a string takes all");
        writeln!(text, "  features: {}", fields(unit.features)).expect("a string takes all");
        writeln!(text, "  labels: {}", fields(unit.labels)).expect("a string takes all");
    }
    let golden = path("units.golden");
    if is_updating() {
        fs::write(&golden, &text).expect("the golden file is written");
    }
    assert_eq!(text, fs::read_to_string(&golden).unwrap_or_default(), "{AGAIN}");
}

/// Goal: the document agrees with the declaration. Method: it contains the table made from the declaration, word
/// for word.
#[test]
fn units_are_those_of_the_document() {
    let mut table = String::from("| id | v | unit | features | labels | measured in |\n|---|---|---|---|---|---|\n");
    for (unit, place) in UNITS.iter().zip(MEASURED_IN) {
        let UnitSchema { id, version, name, features, labels } = unit;
        let (features, labels) = (fields(features), fields(labels));
        let place = if place.is_empty() { "not yet" } else { place };
        writeln!(table, "| {id} | {version} | {name} | {features} | {labels} | {place} |").expect("a string takes all");
    }
    let document = path("../../docs/format.md");
    let text = fs::read_to_string(&document).expect("the document is there");
    let begin = text.find(BEGIN).expect("the table's begin") + BEGIN.len();
    let end = text.find(END).expect("the table's end");
    if is_updating() {
        let (before, behind) = (&text[..begin], &text[end..]);
        fs::write(&document, format!("{before}{table}{behind}")).expect("the document is written");
        return;
    }
    assert_eq!(&text[begin..end], table, "{AGAIN}");
}

/// Goal: ids are ascending, unique, and below the size of the tables, and each name belongs to one unit. Method:
/// all pairs of neighbours, all names.
#[test]
fn units_have_ids_and_names_of_their_own() {
    assert!(UNITS.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert!(UNITS.iter().all(|unit| unit.id > 0 && usize::from(unit.id) < UNIT_SLOTS && unit.version > 0));
    let mut names: Vec<_> = UNITS.iter().map(|unit| unit.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), MEASURED_IN.len()), (UNITS.len(), UNITS.len()));
}

/// Goal: features have the positions of the schema. Method: a unit with a different number in each.
#[test]
fn features_stand_in_the_schemas_order() {
    let flush = LogFlush { stream_bytes: 1, records: 2, flights: 3, us_since_last: 4, copies: 5, io_mode: 6 };
    assert_eq!((flush.words(), LogFlush::SUMMED[5]), ([1, 2, 3, 4, 5, 6, 0, 0], false));
    let names: Vec<_> = UNITS[1].features.iter().map(|field| field.name).collect();
    assert_eq!(names, ["stream_bytes", "records", "flights", "us_since_last", "copies", "io_mode"]);
    assert_eq!([crate::word(-1_i64), crate::word(7_usize), crate::word(u64::MAX)], [0, 7, u32::MAX]);
}
