//! Documents and sources: ASCII, no dead paths in ARCHITECTURE.md, one format of positions.

use std::{
    fs,
    path::{Path, PathBuf},
};

use collie_tidy::{has_extension, root, tracked};

/// Goal: every source and document is ASCII and ends with a newline. Method: every tracked text file is read.
#[test]
fn sources_and_documents_are_ascii() {
    for path in tracked().unwrap() {
        if !has_extension(&path, &["rs", "md", "toml", "tsv", "py", "sql"]) {
            continue;
        }
        let Ok(text) = fs::read(root().join(&path)) else { continue };
        if let Some(at) = text.iter().position(|byte| !byte.is_ascii() || *byte == b'\r') {
            let line = text[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            panic!("{}:{line}: not ASCII", path.display());
        }
        assert!(text.is_empty() || text.ends_with(b"\n"), "{}: no newline at the end", path.display());
    }
}

/// Goal: the map names no missing path. Method: every path in backquotes of ARCHITECTURE.md exists.
#[test]
fn every_path_on_the_map_exists() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut checked = 0;
    for word in map.split('`').skip(1).step_by(2) {
        let is_path = word.contains('/') && !word.contains(' ') && !word.contains("::") && !word.contains("://");
        if !is_path || word.starts_with(['/', '-', '<']) {
            continue;
        }
        checked += 1;
        assert!(root().join(word).exists(), "ARCHITECTURE.md names {word}, which is not there");
    }
    assert!(checked > 20, "only {checked} paths found: the map names few places, or this test reads it wrongly");
    assert!(map.lines().count() <= 400, "ARCHITECTURE.md is longer than 400 lines");
}

/// Goal: every Rust file states its purpose. Method: each begins with a `//!` line.
#[test]
fn every_source_file_opens_with_its_purpose() {
    for path in tracked().unwrap().into_iter().filter(|path| has_extension(path, &["rs"])) {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        assert!(text.starts_with("//!"), "{}: the first line is not a //! comment", path.display());
    }
}

/// Goal: positions of the log look the same everywhere. Method: only the source of `Lsn` formats two hexadecimal
/// numbers with a slash between them.
#[test]
fn positions_are_formatted_in_one_place() {
    let halves = ["X}", "/{"].concat();
    let formats = |path: &Path| fs::read_to_string(root().join(path)).is_ok_and(|text| text.contains(&halves));
    let found: Vec<PathBuf> =
        tracked().unwrap().into_iter().filter(|path| has_extension(path, &["rs"]) && formats(path)).collect();
    assert_eq!(found, [Path::new("crates/base/src/lsn.rs")]);
}
