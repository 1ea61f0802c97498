//! A package as bytes (docs/format.md section 12).
//!
//! The reader trusts no byte. It checks checksum and hash, every count against the bytes that are left, every number
//! against its range, and the order of a tree's children, so that an accepted package predicts without panics (M3, M4).
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::{
    checksum::crc32c,
    codec::{Reader, put_varint},
};

use super::{
    Complexity, Fitted, Model, Node, Package, Ridge, Trees,
    trees::{LEAF, NODE_BYTES, NODES_PER_TREE_MAX, TREES_MAX},
};
use crate::{LabelId, SchemaHash, TrainError, UnitId, numbers::fnv64};

const MAGIC: &[u8; 8] = b"COLLIEMP";
const VERSION: u32 = 1;
/// Magic, checksum, version and hash.
const HEADER_BYTES: usize = 24;
/// Most features of a unit; a tree's node could name those below 0xFFFF.
const FEATURES_MAX: usize = 1024;
/// The ln of any cost is below this.
const LN_MAX: f64 = 100.0;

fn put_f64(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    put_varint(out, u64::try_from(count).expect("a count fits 64 bits"));
}

fn malformed(what: &'static str) -> TrainError {
    TrainError::Malformed { what }
}

/// Reads a number of at most `limit` in absolute value.
fn read_f64(reader: &mut Reader<'_>, what: &'static str, limit: f64) -> Result<f64, TrainError> {
    let value = f64::from_bits(reader.u64()?);
    if value.abs() <= limit { Ok(value) } else { Err(malformed(what)) }
}

/// Reads a count of items of at least `each_bytes`: at most `most`, and no more than the remaining bytes can hold.
fn read_count(
    reader: &mut Reader<'_>,
    what: &'static str,
    each_bytes: usize,
    most: usize,
) -> Result<usize, TrainError> {
    let count = usize::try_from(reader.varint()?).map_err(|_| malformed(what))?;
    let bytes = count.checked_mul(each_bytes).ok_or(malformed(what))?;
    if count > most || bytes > reader.rest().len() { Err(malformed(what)) } else { Ok(count) }
}

fn read_range(reader: &mut Reader<'_>, what: &'static str, limit: f64) -> Result<(f64, f64), TrainError> {
    let (low, high) = (read_f64(reader, what, limit)?, read_f64(reader, what, limit)?);
    if low <= high { Ok((low, high)) } else { Err(malformed(what)) }
}

fn read_complexity(reader: &mut Reader<'_>, features: usize) -> Result<Complexity, TrainError> {
    let (kind, feature) = (reader.u8()?, reader.u16()?);
    let complexity = match kind {
        0 if feature == 0 => Complexity::Constant,
        1 => Complexity::Linear(feature),
        2 => Complexity::Linearithmic(feature),
        _ => return Err(malformed("complexity")),
    };
    let is_there = complexity.feature().is_none_or(|feature| usize::from(feature) < features);
    if is_there { Ok(complexity) } else { Err(malformed("complexity")) }
}

fn read_trees(reader: &mut Reader<'_>, features: usize) -> Result<Trees, TrainError> {
    let base_ln = read_f64(reader, "base", LN_MAX)?;
    let tree_count = read_count(reader, "trees", 1, TREES_MAX)?;
    let (mut roots, mut nodes) = (Vec::with_capacity(tree_count), Vec::new());
    for _ in 0..tree_count {
        let count = read_count(reader, "nodes", NODE_BYTES, NODES_PER_TREE_MAX)?;
        let start = nodes.len();
        let end = start.checked_add(count).ok_or(malformed("nodes"))?;
        if count == 0 {
            return Err(malformed("nodes"));
        }
        roots.push(u32::try_from(start).map_err(|_| malformed("nodes"))?);
        for at in start..end {
            let value = read_f64(reader, "node's value", f64::MAX)?;
            let node = Node { value, feature: reader.u16()?, pad: reader.u16()?, left: reader.u32()? };
            let left = usize::try_from(node.left).map_err(|_| malformed("node's child"))?;
            let is_leaf = node.feature == LEAF && node.left == 0 && value.abs() <= LN_MAX;
            let is_split = usize::from(node.feature) < features && left > at && left < end.saturating_sub(1);
            if node.pad != 0 || !(is_leaf || is_split) {
                return Err(malformed("node"));
            }
            nodes.push(node);
        }
    }
    Ok(Trees { base_ln, roots, nodes })
}

fn read_model(reader: &mut Reader<'_>, kind: u8, features: usize) -> Result<Model, TrainError> {
    match kind {
        b'A' => {
            let count = features.saturating_mul(2).saturating_add(1);
            let weights: Result<_, _> = (0..count).map(|_| read_f64(reader, "weight", 1e6)).collect();
            Ok(Model::Ridge(Ridge { weights: weights? }))
        }
        b'B' => Ok(Model::Trees(read_trees(reader, features)?)),
        _ => Err(malformed("kind of model")),
    }
}

impl Package {
    /// Returns the bytes after the header.
    pub(super) fn body(&self) -> Vec<u8> {
        let fitted = &self.fitted;
        let kind = match fitted.model {
            Model::Ridge(_) => b'A',
            Model::Trees(_) => b'B',
        };
        let mut out = vec![self.unit.get(), self.label.get(), self.schema_version, kind];
        out.extend_from_slice(&self.schema.get().to_le_bytes());
        for number in [fitted.window_us.0, fitted.window_us.1, fitted.rows] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        put_f64(&mut out, fitted.effective_rows);
        put_f64(&mut out, fitted.quantile_ln);
        put_count(&mut out, fitted.fold_errors.len());
        fitted.fold_errors.iter().for_each(|error| put_f64(&mut out, *error));
        put_count(&mut out, self.hardware.len());
        self.hardware.iter().for_each(|tag| out.extend_from_slice(&tag.to_le_bytes()));
        put_f64(&mut out, fitted.target_range_ln.0);
        put_f64(&mut out, fitted.target_range_ln.1);
        put_count(&mut out, fitted.ranges.len());
        for (low, high) in &fitted.ranges {
            put_f64(&mut out, *low);
            put_f64(&mut out, *high);
        }
        let complexity = match fitted.complexity {
            Complexity::Constant => 0,
            Complexity::Linear(_) => 1,
            Complexity::Linearithmic(_) => 2,
        };
        out.push(complexity);
        out.extend_from_slice(&fitted.complexity.feature().unwrap_or(0).to_le_bytes());
        match &fitted.model {
            Model::Ridge(ridge) => ridge.weights.iter().for_each(|weight| put_f64(&mut out, *weight)),
            Model::Trees(trees) => put_trees(&mut out, trees),
        }
        out
    }

    /// Returns the package as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let body = self.body();
        let mut covered = VERSION.to_le_bytes().to_vec();
        covered.extend_from_slice(&fnv64(&body).to_le_bytes());
        covered.extend_from_slice(&body);
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&crc32c(&covered).to_le_bytes());
        out.extend_from_slice(&covered);
        out
    }

    /// Reads a package.
    ///
    /// # Errors
    /// [`TrainError::Malformed`] for bytes that are not a package, [`TrainError::Checksum`] for damaged ones,
    /// [`TrainError::Version`] for those of a newer program.
    pub fn decode(bytes: &[u8]) -> Result<Self, TrainError> {
        let mut reader = Reader::new(bytes);
        if reader.bytes(MAGIC.len())? != MAGIC {
            return Err(malformed("magic"));
        }
        // The checksum comes before the version, so that damage is not reported as a newer format.
        let stored = reader.u32()?;
        let computed = crc32c(reader.rest());
        if stored != computed {
            return Err(TrainError::Checksum { stored, computed });
        }
        let found = reader.u32()?;
        if found != VERSION {
            return Err(if found > VERSION { TrainError::Version { found } } else { malformed("version") });
        }
        if reader.u64()? != fnv64(reader.rest()) {
            return Err(malformed("hash"));
        }
        let package = Self::read_body(&mut reader)?;
        reader.finish()?;
        Ok(package)
    }

    fn read_body(reader: &mut Reader<'_>) -> Result<Self, TrainError> {
        let (unit, label) = (UnitId::new(reader.u8()?), LabelId::new(reader.u8()?));
        let (schema_version, kind) = (reader.u8()?, reader.u8()?);
        let schema = SchemaHash::new(reader.u64()?);
        let window_us = (reader.u64()?, reader.u64()?);
        if window_us.0 > window_us.1 {
            return Err(malformed("training window"));
        }
        let rows = reader.u64()?;
        let effective_rows = read_f64(reader, "effective rows", 1e18)?;
        let quantile_ln = read_f64(reader, "interval", LN_MAX)?;
        if effective_rows < 0.0 || quantile_ln < 0.0 {
            return Err(malformed("interval"));
        }
        let folds = read_count(reader, "folds", 8, 64)?;
        let fold_errors: Result<Vec<f64>, _> = (0..folds).map(|_| read_f64(reader, "fold", f64::MAX)).collect();
        let fold_errors = fold_errors?;
        if fold_errors.is_empty() || fold_errors.iter().any(|error| *error < 0.0) {
            return Err(malformed("folds"));
        }
        let tags = read_count(reader, "hardware tags", 8, 4096)?;
        let hardware: Result<Vec<u64>, _> = (0..tags).map(|_| reader.u64()).collect();
        let hardware = hardware?;
        let target_range_ln = read_range(reader, "range of targets", LN_MAX)?;
        let features = read_count(reader, "features", 16, FEATURES_MAX)?;
        let ranges: Result<Vec<_>, _> = (0..features).map(|_| read_range(reader, "range", f64::MAX)).collect();
        let ranges = ranges?;
        let complexity = read_complexity(reader, features)?;
        let model = read_model(reader, kind, features)?;
        let fitted = Fitted {
            model,
            complexity,
            ranges,
            target_range_ln,
            quantile_ln,
            fold_errors,
            window_us,
            rows,
            effective_rows,
        };
        Ok(Self { unit, label, schema_version, schema, hardware, fitted })
    }
}

/// Writes the trees one after the other; the numbers of children count the nodes of all trees.
fn put_trees(out: &mut Vec<u8>, trees: &Trees) {
    put_f64(out, trees.base_ln);
    put_count(out, trees.roots.len());
    let end = u32::try_from(trees.nodes.len()).expect("trees are small");
    let ends = trees.roots.iter().skip(1).copied().chain([end]);
    for (root, end) in trees.roots.iter().zip(ends) {
        let range = usize::try_from(*root).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
        let nodes = trees.nodes.get(range).expect("roots are ascending and inside");
        put_count(out, nodes.len());
        for node in nodes {
            put_f64(out, node.value);
            out.extend_from_slice(&node.feature.to_le_bytes());
            out.extend_from_slice(&node.pad.to_le_bytes());
            out.extend_from_slice(&node.left.to_le_bytes());
        }
    }
}

/// Writes the matching hash and checksum into the header of `bytes`, for the fuzz target and tests. It leaves bytes
/// alone that are shorter than a header.
pub fn seal_package(bytes: &mut [u8]) {
    let Some((header, body)) = bytes.split_at_mut_checked(HEADER_BYTES) else { return };
    let hash = fnv64(body).to_le_bytes();
    if let Some(place) = header.get_mut(16..) {
        place.copy_from_slice(&hash);
    }
    let crc = bytes.get(12..).map(crc32c).unwrap_or_default().to_le_bytes();
    if let Some(place) = bytes.get_mut(8..12) {
        place.copy_from_slice(&crc);
    }
}

/// Entry point of the fuzz target: decoding any `bytes` ends without a panic, and an accepted package has one form and
/// predicts a finite number.
///
/// # Panics
/// If an accepted package breaks one of these promises.
pub fn fuzz_package(bytes: &[u8]) {
    let Ok(package) = Package::decode(bytes) else { return };
    assert_eq!(package.encode(), bytes, "a package has one form");
    for x in [0.0, 1.0, -1e300, f64::INFINITY, f64::NAN] {
        let features = vec![x; package.fitted.ranges.len()];
        let prediction = package.predict(&features).expect("as many features as the package has");
        assert!(prediction.value.is_finite() && prediction.high.is_finite() && prediction.low >= 0.0);
    }
}

#[cfg(test)]
mod package_tests;
