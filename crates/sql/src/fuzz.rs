//! Bodies of fuzz targets: bytes of clients that may be anything.

use relational::DataType;

use crate::statement::copy_fuzz;
use crate::values::{Settings, decode_binary, encode_binary, encode_text, parse_value};

/// Returns every kind of type.
fn types() -> Vec<DataType> {
    use DataType::*;
    let plain = [
        Bool,
        Int2,
        Int4,
        Int8,
        Float4,
        Float8,
        Numeric(None),
        Text,
        Bytea,
        Uuid,
        Date,
        Time,
        Timestamp,
        TimestampTz,
        Interval,
        Json,
        Jsonb,
        Oid,
    ];
    plain.into_iter().chain([Array(Box::new(Text)), Array(Box::new(Int4))]).collect()
}

/// Reads bytes as text of a value of each type. A value that is read is written and read again as an equal
/// one.
#[doc(hidden)]
pub fn fuzz_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let settings = Settings::default();
    for data_type in types() {
        let Ok(value) = parse_value(text, &data_type, &settings) else { continue };
        let mut written = Vec::new();
        encode_text(&value, &data_type, &settings, &mut written);
        let written = String::from_utf8_lossy(&written);
        let again = parse_value(&written, &data_type, &settings);
        assert_eq!(again.as_ref(), Ok(&value), "{text:?} as {data_type}");
    }
}

/// Reads bytes as the binary form of a value of each type, and writes a value that is read.
#[doc(hidden)]
pub fn fuzz_binary(data: &[u8]) {
    let settings = Settings::default();
    for data_type in types() {
        if let Ok(value) = decode_binary(data, &data_type, &settings) {
            encode_binary(&value, &data_type, &settings, &mut Vec::new());
        }
    }
}

/// Cuts bytes into records of COPY, in one piece and in two, in each format.
#[doc(hidden)]
pub fn fuzz_copy(data: &[u8]) {
    copy_fuzz(data);
}

/// Checks the shape of a message whose first byte is its kind.
#[doc(hidden)]
pub fn fuzz_message(data: &[u8]) {
    if let Some((kind, body)) = data.split_first() {
        let _ = crate::door::fuzz_shape(*kind, body);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn random_bytes_are_values_or_errors() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let texts = [
            "{1,2}",
            "{\"a\": [1, 2]}",
            "2024-02-29 12:00+02",
            "1 day -2:00",
            "-1.5e3",
            "a\tb\\N\n\\.\n",
            "\"a\"\"b\",c\r\n",
        ];
        for round in 0..2_000 {
            let length = next() as usize % 40;
            let mut data: Vec<u8> = (0..length).map(|_| next() as u8).collect();
            if round % 2 == 0 {
                data = texts[next() as usize % texts.len()].as_bytes().to_vec();
                let at = next() as usize % data.len();
                data[at] = b' ' + next() as u8 % 95;
            }
            super::fuzz_text(&data);
            super::fuzz_binary(&data);
            super::fuzz_copy(&data);
            super::fuzz_message(&data);
        }
    }
}
