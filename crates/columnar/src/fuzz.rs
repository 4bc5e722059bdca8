//! Bodies of fuzz targets: bytes of pages and descriptors that may be anything.

use crate::page::with_checksum;
use crate::{ColumnType, Page, PageOptions, ROWS_MAX, SegmentDescriptor, encode_page};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, TimeUnit};

/// Returns an Arrow type of columns of a type.
#[doc(hidden)]
pub fn data_type(column_type: ColumnType) -> DataType {
    match column_type {
        ColumnType::Boolean => DataType::Boolean,
        ColumnType::Int16 => DataType::Int16,
        ColumnType::Int32 => DataType::Int32,
        ColumnType::Int64 => DataType::Int64,
        ColumnType::Float32 => DataType::Float32,
        ColumnType::Float64 => DataType::Float64,
        ColumnType::Decimal128 => DataType::Decimal128(38, 0),
        ColumnType::Date32 => DataType::Date32,
        ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        ColumnType::Time64 => DataType::Time64(TimeUnit::Microsecond),
        ColumnType::FixedBinary16 => DataType::FixedSizeBinary(16),
        ColumnType::Utf8 => DataType::Utf8View,
        ColumnType::Binary => DataType::BinaryView,
    }
}

/// Decodes bytes as a page, as they are and with a version and a checksum that match. A page that is read is
/// written and read again as an equal one, and some of its rows are what they are among all.
#[doc(hidden)]
pub fn fuzz_page(data: &[u8]) {
    page(data.to_vec());
    if let Some(data) = with_checksum(data) {
        page(data);
    }
}

fn page(data: Vec<u8>) {
    let Ok(page) = Page::open(Buffer::from(data)) else { return };
    let data_type = data_type(page.column_type());
    let all = page.decode(&data_type);
    for step in [3, 20] {
        let rows: Vec<u32> = (0..page.rows() as u32).step_by(step).collect();
        // Some rows may be sound where others are not.
        if let (Ok(some), Ok(all)) = (page.decode_rows(&data_type, &rows), &all) {
            for (at, row) in rows.iter().enumerate() {
                let (some, all) = (some.slice(at, 1), all.slice(*row as usize, 1));
                assert_eq!(some.to_data(), all.to_data(), "row {row}");
            }
        }
    }
    let Ok(all) = all else { return };
    assert!(all.len() == page.rows() && all.len() <= ROWS_MAX);
    assert_eq!(all.null_count(), page.null_count());
    // Views of one constant can make more text than fits in a page.
    let Ok(again) = encode_page(&all, &PageOptions::default()) else { return };
    let again = Page::open(Buffer::from(again.bytes)).and_then(|page| page.decode(&data_type));
    assert!(again.is_ok_and(|again| again.to_data() == all.to_data()), "a page that was read");
}

/// Decodes bytes as a segment descriptor, as they are and with a checksum that matches. One that is read is
/// written again as it was.
#[doc(hidden)]
pub fn fuzz_descriptor(data: &[u8]) {
    let checksum = base::checksum::crc32c(&[data]).to_le_bytes();
    for data in [data.to_vec(), [data, &checksum].concat()] {
        if let Ok(descriptor) = SegmentDescriptor::decode(&data) {
            assert_eq!(descriptor.encode(), data, "a descriptor that was read");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choice, Compression, EncodingKind, encode_segment};
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::sync::Arc;

    /// Returns small columns that suit all encodings.
    fn columns() -> Vec<(u32, ArrayRef)> {
        let numbers = (0..200i64).map(|row| (row % 7 != 3).then_some(row / 9 * 1000));
        let texts = (0..200).map(|row| format!("https://example.org/é/{}", row / 3 % 20));
        vec![
            (1, Arc::new(numbers.collect::<Int64Array>())),
            (2, Arc::new(texts.map(Some).collect::<StringArray>())),
        ]
    }

    /// Returns pages of all encodings.
    fn pages() -> Vec<Vec<u8>> {
        let mut pages = Vec::new();
        for kind in EncodingKind::ALL {
            for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
                let options = PageOptions { choice: Choice::Forced(kind), compression };
                for (_, array) in columns() {
                    pages.push(encode_page(&array, &options).unwrap().bytes);
                }
            }
        }
        pages
    }

    #[test]
    fn random_bytes_are_harmless() {
        let mut random = StdRng::seed_from_u64(7);
        let descriptor = encode_segment(&columns(), &PageOptions::default()).unwrap().descriptor;
        let descriptor = descriptor.encode();
        for page in pages() {
            for _ in 0..100 {
                let mut page = page.clone();
                for _ in 0..random.random_range(1..4) {
                    let at = random.random_range(0..page.len());
                    page[at] = random.random();
                }
                page.truncate(random.random_range(page.len() / 2..page.len() * 2));
                fuzz_page(&page);
            }
        }
        for _ in 0..5_000 {
            let mut data = descriptor[..descriptor.len() - 4].to_vec();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..data.len());
                data[at] = random.random();
            }
            fuzz_descriptor(&data);
            let len = random.random_range(0..200);
            let data: Vec<u8> = (0..len).map(|_| random.random()).collect();
            fuzz_page(&data);
            fuzz_descriptor(&data);
        }
    }
}
