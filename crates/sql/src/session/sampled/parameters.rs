//! Parameters of a sampled read as bytes (docs/replication-protocol.md): their number, and for each the type, and the
//! value in PostgreSQL's binary form.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::codec::{DecodeError, Reader};

use crate::{
    error::{Result, SqlError, SqlState},
    types::{Value, io},
};

/// The length that stands for NULL.
const NULL: u32 = u32::MAX;

/// Returns the parameters as bytes; `types` has as many as `values`.
pub(super) fn encode(types: &[u32], values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&count(values.len()).to_le_bytes());
    for (ty, value) in types.iter().zip(values) {
        out.extend_from_slice(&ty.to_le_bytes());
        if value.is_null() {
            out.extend_from_slice(&NULL.to_le_bytes());
            continue;
        }
        let mut bytes = Vec::new();
        io::binary_out(value, *ty, &mut bytes);
        out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(NULL).to_le_bytes());
        out.extend_from_slice(&bytes);
    }
    out
}

fn count(values: usize) -> u16 {
    u16::try_from(values).expect("a statement has fewer than 65,536 parameters")
}

/// A decoded parameter: its type, and its bytes unless it is NULL.
type Parameter<'a> = (u32, Option<&'a [u8]>);

fn read(bytes: &[u8]) -> std::result::Result<Vec<Parameter<'_>>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut parameters = Vec::new();
    for _ in 0..reader.u16()? {
        let (ty, length) = (reader.u32()?, reader.u32()?);
        let value = match length {
            NULL => None,
            length => Some(reader.bytes(usize::try_from(length).unwrap_or(usize::MAX))?),
        };
        parameters.push((ty, value));
    }
    reader.finish()?;
    Ok(parameters)
}

/// Returns the types and values of parameters.
///
/// # Errors
/// 08P01 for bytes that are not parameters, and the errors of reading a value.
pub(super) fn decode(bytes: &[u8]) -> Result<(Vec<u32>, Vec<Value>)> {
    let parameters = read(bytes).map_err(|error| {
        SqlError::new(SqlState::PROTOCOL_VIOLATION, format!("parameters of a sampled read: {error}"))
    })?;
    let value = |(ty, bytes): &Parameter<'_>| bytes.map_or(Ok(Value::Null), |bytes| io::binary_in(*ty, -1, bytes));
    let values = parameters.iter().map(value).collect::<Result<_>>()?;
    Ok((parameters.into_iter().map(|(ty, _)| ty).collect(), values))
}

/// Runs the fuzz target: for any `bytes`, decoding ends without a panic, and the encoding of a decoded result has as
/// many parameters of the same types.
pub fn fuzz_parameters(bytes: &[u8]) {
    if let Ok((types, values)) = decode(bytes) {
        let bytes = encode(&types, &values);
        let again = read(&bytes).expect("what is written reads back");
        assert!(again.iter().map(|(ty, _)| ty).eq(&types), "types stay what they are");
        assert!(
            again.iter().map(|(_, value)| value.is_none()).eq(values.iter().map(Value::is_null)),
            "NULL stays NULL, and nothing else becomes it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::oid;

    /// Goal: parameters are decoded as they were encoded, including NULL; bytes that are cut, or have more after them,
    /// are refused. Method: a few types, every cut, an extra byte.
    #[test]
    fn parameters_survive_the_way() {
        let types = [oid::INT8, oid::TEXT, oid::INT4, oid::FLOAT8, oid::TEXT];
        let values = [Value::Int8(-7), Value::text("it's"), Value::Null, Value::Float8(1.5), Value::text("")];
        let bytes = encode(&types, &values);
        let (found_types, found) = decode(&bytes).unwrap();
        assert_eq!(found_types, types);
        assert_eq!(format!("{found:?}"), format!("{values:?}"));
        for cut in 0..bytes.len() {
            let (front, _) = bytes.split_at(cut);
            assert!(decode(front).is_err(), "cut at {cut}");
            fuzz_parameters(front);
        }
        assert!(decode(&[&bytes[..], b"x"].concat()).is_err());
        assert_eq!(decode(&encode(&[], &[])).unwrap().0, [0; 0]);
        fuzz_parameters(&bytes);
    }
}
