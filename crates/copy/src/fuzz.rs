//! Body of the fuzz target: data of COPY that may be any bytes.

use crate::{
    Column, ColumnType, Format, Header, IsoForms, Layout, Limits, Options, Parser, Result,
    Splitter, Writer,
};
use arrow_array::{ArrayRef, RecordBatch};
use std::sync::Arc;

/// Types that data is read as, all of them or the first ones.
const TYPES: [ColumnType; 17] = [
    ColumnType::Text,
    ColumnType::Int4,
    ColumnType::Date,
    ColumnType::Int2,
    ColumnType::Int8,
    ColumnType::Timestamp,
    ColumnType::Bool,
    ColumnType::Float8,
    ColumnType::Numeric { precision: 9, scale: 3 },
    ColumnType::Varchar(3),
    ColumnType::Char(3),
    ColumnType::Bytea,
    ColumnType::Uuid,
    ColumnType::Time,
    ColumnType::TimestampTz,
    ColumnType::Float4,
    ColumnType::Oid,
];

/// Reads data as each format, in one piece and in small ones: both ways must give the same columns, or
/// the same error. Columns that are read are written and read again as equal ones.
#[doc(hidden)]
pub fn fuzz_copy(data: &[u8]) {
    let Some(([first, second], data)) = data.split_first_chunk() else { return };
    let options = options_of(*first);
    if options.check().is_err() {
        return;
    }
    let count = 1 + usize::from(*second) % TYPES.len();
    let columns = || -> Vec<Column> {
        let named = TYPES.iter().take(count).zip('a'..);
        named.map(|(column_type, name)| Column::new(name, *column_type)).collect()
    };
    let small = 1 + usize::from(*second) / TYPES.len();
    let whole = read(data, &options, columns(), usize::MAX, 1 << 20);
    let pieces = read(data, &options, columns(), small, small);
    assert_eq!(whole, pieces, "pieces of {small} bytes, {options:?}");
    let Ok(batch) = whole else { return };
    for format in [Format::Text, Format::Csv, Format::Binary] {
        let options = Options::of_format(format);
        let again = write(&batch, &options, columns())
            .and_then(|data| read(&data, &options, columns(), usize::MAX, 1 << 20));
        assert_eq!(again.as_ref(), Ok(&batch), "{format:?}");
    }
}

fn options_of(choice: u8) -> Options {
    let format = [Format::Text, Format::Csv, Format::Binary][usize::from(choice) % 3];
    let mut options = Options::of_format(format);
    if format == Format::Binary {
        return options;
    }
    if choice & 0x10 != 0 {
        options.header = Header::Skip;
    }
    if choice & 0x20 != 0 {
        options.escape = b'\\';
    }
    if choice & 0x40 != 0 {
        options.null = "NULL".to_owned();
    }
    if choice & 0x80 != 0 {
        options.delimiter = b'-';
    }
    options
}

fn read(
    data: &[u8],
    options: &Options,
    columns: Vec<Column>,
    piece_bytes: usize,
    block_bytes: usize,
) -> Result<RecordBatch> {
    let limits = Limits { block_bytes, record_bytes_max: 1 << 20 };
    let mut splitter = Splitter::new(options, columns.len(), limits)?;
    let layout = Layout::new(&columns, &(0..columns.len()).collect::<Vec<_>>())?;
    let mut parser = Parser::new(options, columns, Arc::new(IsoForms))?;
    for mut piece in data.chunks(piece_bytes) {
        while let Some(mut block) = splitter.push(&mut piece)? {
            parser.parse(&mut block, usize::MAX)?;
        }
    }
    while let Some(mut block) = splitter.finish()? {
        parser.parse(&mut block, usize::MAX)?;
    }
    let rows = parser.rows();
    layout.batch(parser.take()?, rows, |_, _| Ok(None::<ArrayRef>))
}

fn write(batch: &RecordBatch, options: &Options, columns: Vec<Column>) -> Result<Vec<u8>> {
    let mut writer = Writer::new(options, columns, Arc::new(IsoForms))?;
    let mut out = Vec::new();
    writer.head(&mut out);
    writer.batch(batch, &mut out)?;
    writer.tail(&mut out);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn random_bytes_are_harmless() {
        let mut random = StdRng::seed_from_u64(7);
        let alphabet = b"0123-:. \t\t\t,,,\"\"\\\\NULLtf\n\n\r.x\0\xc3\xa9\xff\x01";
        for _ in 0..20_000 {
            let len = random.random_range(0..60);
            let mut data: Vec<u8> =
                (0..len).map(|_| alphabet[random.random_range(0..alphabet.len())]).collect();
            for byte in data.iter_mut().take(2) {
                *byte = random.random();
            }
            fuzz_copy(&data);
        }
    }

    #[test]
    fn flipped_bits_of_binary_data_are_harmless() {
        let mut data = vec![2, 1];
        data.extend_from_slice(crate::split::SIGNATURE);
        data.extend_from_slice(&[0; 8]);
        for text in ["first", "", "third"] {
            data.extend_from_slice(&[0, 2, 0, 0, 0, text.len() as u8]);
            data.extend_from_slice(text.as_bytes());
            data.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 7]);
        }
        data.extend_from_slice(&[0xff, 0xff]);
        for at in 2..data.len() {
            for bit in 0..8 {
                let mut data = data.clone();
                data[at] ^= 1 << bit;
                fuzz_copy(&data);
                fuzz_copy(&data[..at]);
            }
        }
    }
}
