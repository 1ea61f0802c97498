//! `Table`: columns of numbers as a Parquet file and back. It knows nothing about units.
//!
//! One row group, zstd, no nulls. The library may panic on bytes that no writer makes; `decode` catches that and
//! returns an error.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use bytes::Bytes;
use parquet::{
    basic::{Compression, ZstdLevel},
    column::reader::ColumnReader,
    data_type::{FloatType, Int32Type, Int64Type},
    errors::ParquetError,
    file::{
        metadata::KeyValue,
        properties::WriterProperties,
        reader::{FileReader as _, SerializedFileReader},
        writer::SerializedFileWriter,
    },
    schema::parser::parse_message_type,
};

/// The most rows that are read from one file: sixteen times as many as are written into one.
const ROWS_MAX: usize = 1 << 20;

/// The type of a column's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Unsigned 8 bits, stored in 32.
    U8,
    /// Unsigned 16 bits, stored in 32.
    U16,
    /// Unsigned 32 bits.
    U32,
    /// Unsigned 64 bits.
    U64,
    /// A single-precision number.
    F32,
}

impl Kind {
    /// Returns the declaration of a column in Parquet's schema language.
    fn declared(self, name: &str) -> String {
        match self {
            Self::U8 => format!("REQUIRED INT32 {name} (INTEGER(8,false));"),
            Self::U16 => format!("REQUIRED INT32 {name} (INTEGER(16,false));"),
            Self::U32 => format!("REQUIRED INT32 {name} (INTEGER(32,false));"),
            Self::U64 => format!("REQUIRED INT64 {name} (INTEGER(64,false));"),
            Self::F32 => format!("REQUIRED FLOAT {name};"),
        }
    }
}

/// The name and kind of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its name, as in the documentation of the format.
    pub(crate) name: &'static str,
    /// The type of its numbers.
    pub(crate) kind: Kind,
}

/// The numbers of a column. Integers are unsigned and widened to 64 bits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    /// The numbers of a column of any kind but [`Kind::F32`].
    Whole(Vec<u64>),
    /// The numbers of a [`Kind::F32`] column.
    Real(Vec<f32>),
}

/// Columns with their numbers, and key-value pairs of the footer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    /// The names and kinds.
    pub(crate) columns: Vec<Column>,
    /// The numbers, by column.
    pub(crate) values: Vec<Values>,
    /// The pairs of the footer, in order.
    pub(crate) footer: Vec<(String, String)>,
}

/// Returns the low 32 bits, in the signed type that Parquet stores unsigned numbers in.
fn low_32(value: u64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn whole_32(value: i32) -> u64 {
    u64::from(u32::from_le_bytes(value.to_le_bytes()))
}

impl Table {
    /// Returns the bytes of the file.
    ///
    /// # Errors
    /// Those of the library, also for columns of different lengths.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, ParquetError> {
        let declared: Vec<String> = self.columns.iter().map(|column| column.kind.declared(column.name)).collect();
        let schema = parse_message_type(&format!("message samples {{ {} }}", declared.join(" ")))?;
        let pairs = self.footer.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_created_by(concat!("collie-samples ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(pairs))
            .build();
        let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for (column, values) in self.columns.iter().zip(&self.values) {
            let mut into =
                group.next_column()?.ok_or_else(|| ParquetError::General("fewer columns than declared".to_owned()))?;
            match (column.kind, values) {
                (Kind::F32, Values::Real(values)) => into.typed::<FloatType>().write_batch(values, None, None)?,
                (Kind::U64, Values::Whole(values)) => {
                    let signed: Vec<i64> = values.iter().map(|value| i64::from_le_bytes(value.to_le_bytes())).collect();
                    into.typed::<Int64Type>().write_batch(&signed, None, None)?
                }
                (_, Values::Whole(values)) => {
                    let signed: Vec<i32> = values.iter().map(|value| low_32(*value)).collect();
                    into.typed::<Int32Type>().write_batch(&signed, None, None)?
                }
                (_, Values::Real(_)) => {
                    return Err(ParquetError::General(format!("{} is not a real number", column.name)));
                }
            };
            into.close()?;
        }
        group.close()?;
        writer.into_inner()
    }

    /// Reads a file. Its columns come in the order of `wanted`; other columns of the file are skipped.
    ///
    /// # Errors
    /// The reason, as text: the file is not Parquet, it is damaged, or a wanted column is missing or has another kind.
    pub(crate) fn decode(bytes: Vec<u8>, wanted: &[Column]) -> Result<Self, String> {
        let read = || Self::decode_trusting(bytes, wanted);
        match catch_unwind(AssertUnwindSafe(read)) {
            Ok(Ok(table)) => Ok(table),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_panic) => Err("its bytes are none that a writer makes".to_owned()),
        }
    }

    fn decode_trusting(bytes: Vec<u8>, wanted: &[Column]) -> Result<Self, ParquetError> {
        let reader = SerializedFileReader::new(Bytes::from(bytes))?;
        let file = reader.metadata().file_metadata();
        let rows = usize::try_from(file.num_rows()).unwrap_or(usize::MAX);
        if rows > ROWS_MAX {
            return Err(ParquetError::General(format!("{} rows, more than anybody writes", file.num_rows())));
        }
        let pairs = file.key_value_metadata().map(Vec::as_slice).unwrap_or_default();
        let footer = pairs.iter().map(|pair| (pair.key.clone(), pair.value.clone().unwrap_or_default())).collect();
        let names: Vec<&str> = file.schema_descr().columns().iter().map(|column| column.name()).collect();
        let mut values = Vec::with_capacity(wanted.len());
        for column in wanted {
            let at = names.iter().position(|name| *name == column.name);
            let at = at.ok_or_else(|| ParquetError::General(format!("no column {}", column.name)))?;
            let mut whole = Vec::new();
            let mut real = Vec::new();
            for group in 0..reader.num_row_groups() {
                match (column.kind, reader.get_row_group(group)?.get_column_reader(at)?) {
                    (Kind::F32, ColumnReader::FloatColumnReader(mut from)) => {
                        from.read_records(rows, None, None, &mut real)?;
                    }
                    (Kind::U64, ColumnReader::Int64ColumnReader(mut from)) => {
                        let mut signed = Vec::new();
                        from.read_records(rows, None, None, &mut signed)?;
                        whole.extend(signed.iter().map(|value| u64::from_le_bytes(value.to_le_bytes())));
                    }
                    (Kind::U8 | Kind::U16 | Kind::U32, ColumnReader::Int32ColumnReader(mut from)) => {
                        let mut signed = Vec::new();
                        from.read_records(rows, None, None, &mut signed)?;
                        whole.extend(signed.iter().map(|value| whole_32(*value)));
                    }
                    _ => return Err(ParquetError::General(format!("column {} is of another kind", column.name))),
                }
            }
            if whole.len() + real.len() != rows {
                return Err(ParquetError::General(format!("column {} is not as long as the file", column.name)));
            }
            values.push(if column.kind == Kind::F32 { Values::Real(real) } else { Values::Whole(whole) });
        }
        Ok(Self { columns: wanted.to_vec(), values, footer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let column = |name, kind| Column { name, kind };
        Table {
            columns: vec![
                column("a", Kind::U8),
                column("b", Kind::U16),
                column("c", Kind::U32),
                column("d", Kind::U64),
                column("e", Kind::F32),
            ],
            values: vec![
                Values::Whole(vec![0, 255]),
                Values::Whole(vec![0, 65_535]),
                Values::Whole(vec![7, u64::from(u32::MAX)]),
                Values::Whole(vec![u64::MAX, 1 << 63]),
                Values::Real(vec![0.001, 1.0]),
            ],
            footer: vec![("node".to_owned(), "n1".to_owned()), ("empty".to_owned(), String::new())],
        }
    }

    /// Goal: written numbers are read to the last bit, as unsigned ones. Method: each kind at its edges; a part of the
    /// columns in another order.
    #[test]
    fn columns_read_back_at_the_edges_of_their_kinds() {
        let table = table();
        let bytes = table.encode().unwrap();
        assert_eq!(Table::decode(bytes.clone(), &table.columns).unwrap(), table);
        let part = [table.columns[3], table.columns[0]];
        let read = Table::decode(bytes, &part).unwrap();
        assert_eq!(read.values, [table.values[3].clone(), table.values[0].clone()]);
    }

    /// Goal: an empty table is a file too. Method: no rows.
    #[test]
    fn a_table_without_rows_reads_back() {
        let mut table = table();
        table.values = vec![
            Values::Whole(vec![]),
            Values::Whole(vec![]),
            Values::Whole(vec![]),
            Values::Whole(vec![]),
            Values::Real(vec![]),
        ];
        assert_eq!(Table::decode(table.encode().unwrap(), &table.columns).unwrap(), table);
    }

    /// Goal: for any bytes, reading ends with an error or with numbers. Method: every prefix of a file, and a file with
    /// each of its bytes changed in three ways.
    #[test]
    fn damaged_files_are_errors() {
        let table = table();
        let bytes = table.encode().unwrap();
        let (here, hook) = (std::thread::current().id(), std::sync::Arc::new(std::panic::take_hook()));
        let others = hook.clone();
        // The library's panics about the bytes of this test would hide the messages that matter, such as those of tests
        // that run in parallel.
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().id() != here {
                others(info);
            }
        }));
        let cut = (0..bytes.len()).filter(|len| Table::decode(bytes[..*len].to_vec(), &table.columns).is_ok()).count();
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                let _ = Table::decode(changed, &table.columns);
            }
        }
        std::panic::set_hook(Box::new(move |info| hook(info)));
        assert_eq!(cut, 0, "a part of a file was read as a whole one");
        assert!(Table::decode(Vec::new(), &table.columns).is_err());
    }

    /// Goal: a column that is missing or of another kind is reported. Method: both are requested.
    #[test]
    fn other_columns_are_refused() {
        let bytes = table().encode().unwrap();
        for (name, kind, told) in
            [("z", Kind::U8, "no column z"), ("d", Kind::U32, "another kind"), ("a", Kind::F32, "another kind")]
        {
            let error = Table::decode(bytes.clone(), &[Column { name, kind }]).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
