//! `SampleFile`: a file of one unit's samples, encoded and decoded.

use std::path::Path;

use collie_obs::{Sample, UnitSchema};

use crate::{
    Footer, Origin, SamplesError,
    columns::{COMMON, columns_of},
    footer, schema_hash,
    table::{Table, Values},
};

/// A sample and the time at which it was drained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleRow {
    /// When the sample was drained, in us since 1970.
    pub time_us: u64,
    /// The sample.
    pub sample: Sample,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleFile {
    /// The origin of the rows.
    pub footer: Footer,
    /// The rows, in the order in which they were drained.
    pub rows: Vec<SampleRow>,
}

/// Returns the bytes of a file of `unit`'s rows.
///
/// # Errors
/// The error of the Parquet library, as text.
pub(crate) fn encode(
    unit: &UnitSchema,
    rows: &[SampleRow],
    origin: &Origin,
    config_epoch: u64,
) -> Result<Vec<u8>, String> {
    let whole = |of: &dyn Fn(&SampleRow) -> u64| Values::Whole(rows.iter().map(of).collect());
    let mut values = vec![
        whole(&|row| row.time_us),
        whole(&|row| u64::from(row.sample.source)),
        whole(&|row| u64::from(row.sample.flags)),
        whole(&|row| u64::from(row.sample.thread)),
        whole(&|row| u64::from(row.sample.calls)),
        Values::Real(rows.iter().map(|row| row.sample.p).collect()),
        whole(&|row| u64::from(row.sample.ctx)),
        whole(&|row| row.sample.start),
        whole(&|row| row.sample.lsn),
    ];
    values.extend((0..unit.features.len()).map(|at| whole(&|row| u64::from(row.sample.features[at]))));
    values.extend((0..unit.labels.len()).map(|at| whole(&|row| row.sample.labels[at])));
    let table = Table { columns: columns_of(unit), values, footer: footer::pairs(origin, config_epoch, Some(unit)) };
    table.encode().map_err(|error| error.to_string())
}

/// The columns of a table, taken one after the other.
struct Columns<'a>(std::slice::Iter<'a, Values>);

impl Columns<'_> {
    /// Returns the next column as numbers of a type that holds all values of its kind.
    fn whole<T: TryFrom<u64> + Default>(&mut self) -> Vec<T> {
        match self.0.next() {
            Some(Values::Whole(values)) => values.iter().map(|value| T::try_from(*value).unwrap_or_default()).collect(),
            _ => Vec::new(),
        }
    }

    fn real(&mut self) -> Vec<f32> {
        match self.0.next() {
            Some(Values::Real(values)) => values.clone(),
            _ => Vec::new(),
        }
    }
}

/// Reads a file of `unit`'s rows; `path` is for errors only.
///
/// # Errors
/// [`SamplesError::Columns`] if the file has another schema, [`SamplesError::Damaged`] if it is not Parquet or is
/// damaged.
pub(crate) fn decode(unit: &UnitSchema, bytes: Vec<u8>, path: &Path) -> Result<SampleFile, SamplesError> {
    let damaged = |what| SamplesError::Damaged { path: path.to_owned(), what };
    let columns = columns_of(unit);
    // The footer is checked first: a file of another schema lacks columns, and must not be reported as damaged.
    let footer = Footer::of_pairs(&Table::decode(bytes.clone(), &[]).map_err(damaged)?.footer);
    let expected = schema_hash(unit);
    if footer.schema != Some(expected) {
        return Err(SamplesError::Columns { path: path.to_owned(), found: footer.schema, expected });
    }
    let table = Table::decode(bytes, &columns).map_err(damaged)?;
    let (common, own) = table.values.split_at(COMMON.len());
    let mut columns = Columns(common.iter());
    let times: Vec<u64> = columns.whole();
    let (sources, flags): (Vec<u8>, Vec<u8>) = (columns.whole(), columns.whole());
    let (threads, calls): (Vec<u16>, Vec<u16>) = (columns.whole(), columns.whole());
    let shares = columns.real();
    let contexts: Vec<u32> = columns.whole();
    let (starts, lsns): (Vec<u64>, Vec<u64>) = (columns.whole(), columns.whole());
    let (features, labels) = own.split_at(unit.features.len());
    let (mut of_features, mut of_labels) = (Columns(features.iter()), Columns(labels.iter()));
    let features: Vec<Vec<u32>> = features.iter().map(|_| of_features.whole()).collect();
    let labels: Vec<Vec<u64>> = labels.iter().map(|_| of_labels.whole()).collect();
    let row = |at: usize| {
        let mut sample = Sample {
            ou: unit.id,
            version: unit.version,
            source: sources[at],
            flags: flags[at],
            thread: threads[at],
            calls: calls[at],
            p: shares[at],
            ctx: contexts[at],
            start: starts[at],
            lsn: lsns[at],
            features: [0; 8],
            labels: [0; 4],
        };
        sample.features.iter_mut().zip(&features).for_each(|(into, column)| *into = column[at]);
        sample.labels.iter_mut().zip(&labels).for_each(|(into, column)| *into = column[at]);
        SampleRow { time_us: times[at], sample }
    };
    // Every column is as long as the file: `Table::decode` has checked that.
    Ok(SampleFile { footer, rows: (0..times.len()).map(row).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::unit_of;

    /// Goal: a sample reads back to the last bit, for every unit. Method: rows with the lowest and the highest value of
    /// each field, for each unit.
    #[test]
    fn every_unit_reads_back() {
        for unit in collie_obs::UNITS {
            let mut low = Sample {
                ou: unit.id,
                version: unit.version,
                source: 0,
                flags: 0,
                thread: 0,
                calls: 1,
                p: 0.001,
                ctx: 0,
                start: 0,
                lsn: 0,
                features: [0; 8],
                labels: [0; 4],
            };
            let mut high = Sample {
                source: u8::MAX,
                flags: u8::MAX,
                thread: u16::MAX,
                calls: 16,
                p: 1.0,
                ctx: u32::MAX,
                start: u64::MAX,
                lsn: u64::MAX,
                ..low
            };
            high.features[..unit.features.len()].fill(u32::MAX);
            high.labels[..unit.labels.len()].fill(u64::MAX);
            for (at, feature) in low.features[..unit.features.len()].iter_mut().enumerate() {
                *feature = u32::try_from(at).unwrap();
            }
            let rows = [SampleRow { time_us: 5, sample: low }, SampleRow { time_us: u64::MAX, sample: high }];
            let origin = Origin { cluster: "c".to_owned(), ..Origin::unknown("n1") };
            let bytes = encode(unit, &rows, &origin, 9).unwrap();
            let read = decode(unit, bytes, "x".as_ref()).unwrap();
            assert_eq!(read.rows, rows, "{}", unit.name);
            let Footer { cluster, node, config_epoch, schema, .. } = read.footer;
            assert_eq!((cluster.as_str(), node.as_str(), config_epoch), ("c", "n1", 9));
            assert_eq!(schema, Some(schema_hash(unit)));
        }
    }

    /// Goal: a file of another unit is distinguished from a damaged one. Method: both are read as unit 13.
    #[test]
    fn other_schemas_and_damage_are_told_apart() {
        let (scan, read) = (unit_of(13, 1).unwrap(), unit_of(9, 1).unwrap());
        let bytes = encode(read, &[], &Origin::unknown("n1"), 0).unwrap();
        assert!(matches!(decode(scan, bytes.clone(), "x".as_ref()), Err(SamplesError::Columns { found: Some(_), .. })));
        assert!(matches!(
            decode(scan, bytes[..bytes.len() - 1].to_vec(), "x".as_ref()),
            Err(SamplesError::Damaged { .. })
        ));
    }
}
