//! Columns that are written are read back: every type, shape, encoding and compression.

use crate::arrays::{SHAPES, Shape, column};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Decimal128Array, Int16Array, Int32Array,
    Int64Array, StringViewArray,
};
use arrow_buffer::Buffer;
use columnar::{
    Choice, ColumnType, Compression, EncodingKind, Page, PageOptions, ROWS_MAX, VALUE_BYTES_MAX,
    encode_page, encode_segment,
};
use proptest::prelude::*;
use std::sync::Arc;

fn choices() -> Vec<Choice> {
    let forced = EncodingKind::ALL.into_iter().map(Choice::Forced);
    [Choice::Sampled, Choice::Deferred].into_iter().chain(forced).collect()
}

/// Compares the rows of a page with the rows of an array; returns the page.
#[track_caller]
fn check(array: &dyn Array, want: &dyn Array, options: PageOptions, what: &str) -> Page {
    let encoded = encode_page(array, &options).unwrap();
    assert_eq!(encoded.descriptor.stored_bytes as usize, encoded.bytes.len(), "{what}");
    // Once where arrays may point into the page, and once where they may not.
    let mut shifted = vec![0];
    shifted.extend_from_slice(&encoded.bytes);
    let shifted = Buffer::from_vec(shifted).slice(1);
    for bytes in [Buffer::from_slice_ref(&encoded.bytes), shifted] {
        let page = Page::open(bytes).unwrap_or_else(|e| panic!("{what}: {e}"));
        let got = page.decode(want.data_type()).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(got.to_data(), want.to_data(), "{what}");
    }
    let page = Page::open(Buffer::from(encoded.bytes)).unwrap();
    assert_eq!(page.tree(), encoded.descriptor.tree, "{what}");
    assert_eq!(page.null_count(), want.null_count(), "{what}");
    let last = want.len() as u32 - 1;
    let sparse = (0..want.len() as u32).filter(|row| row % 23 == 5 || *row == last);
    let dense = (0..want.len() as u32).filter(|row| row % 3 != 0);
    for rows in [vec![], vec![0], vec![last], sparse.collect(), dense.collect()] {
        let got = page.decode_rows(want.data_type(), &rows).unwrap();
        assert_eq!(got.len(), rows.len(), "{what}");
        for (at, row) in rows.iter().enumerate().take(200) {
            let (got, want) = (got.slice(at, 1), want.slice(*row as usize, 1));
            assert_eq!(got.to_data(), want.to_data(), "{what}, row {row}");
        }
    }
    page
}

fn check_all(column_type: ColumnType, shape: Shape, nulls: f64, rows: usize, seed: u64) {
    let (array, want) = column(column_type, shape, nulls, rows, seed);
    for choice in choices() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let what = format!(
                "{column_type:?} {shape:?} nulls {nulls} rows {rows} seed {seed} {choice:?} {compression:?}"
            );
            check(&array, &want, PageOptions { choice, compression }, &what);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]
    #[test]
    fn columns_read_back(
        column_type in 0..ColumnType::ALL.len(),
        shape in 0..SHAPES.len(),
        nulls in prop::sample::select(vec![0.0, 0.01, 0.5, 0.98, 1.0]),
        rows in prop_oneof![1..10usize, 1..300usize, 2_000..2_500usize],
        seed: u64,
    ) {
        check_all(ColumnType::ALL[column_type], SHAPES[shape], nulls, rows, seed);
    }
}

#[test]
fn every_type_and_shape_reads_back() {
    for column_type in ColumnType::ALL {
        for (shape, seed) in SHAPES.into_iter().zip(1..) {
            check_all(column_type, shape, 0.0, 65, seed);
            check_all(column_type, shape, 0.3, 1, seed);
        }
    }
}

#[test]
fn full_pages_read_back() {
    for column_type in [ColumnType::Boolean, ColumnType::Int16, ColumnType::Timestamp] {
        for shape in [Shape::Random, Shape::Runs] {
            check_all(column_type, shape, 0.1, ROWS_MAX, 5);
        }
    }
}

#[test]
fn spans_of_every_width_read_back() {
    let forced = |kind| PageOptions { choice: Choice::Forced(kind), ..PageOptions::default() };
    for bits in 0..=64u32 {
        let top = 1u128.checked_shl(bits).map_or(0, |top| top - 1) as u64;
        let numbers = (0..130u64).map(|row| match row % 3 {
            0 => 0,
            1 => top,
            _ => top & row.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        });
        let eight = numbers.clone().map(|n| n.wrapping_add(i64::MIN as u64) as i64);
        let eight: ArrayRef = Arc::new(eight.collect::<Int64Array>());
        let sixteen = numbers.clone().map(|n| i128::from(n) - (1 << 90));
        let sixteen: ArrayRef = Arc::new(sixteen.collect::<Decimal128Array>());
        let mut arrays = vec![eight, sixteen];
        if bits <= 32 {
            let four = numbers.clone().map(|n| (n as u32).wrapping_add(1 << 31) as i32);
            arrays.push(Arc::new(four.collect::<Int32Array>()));
        }
        if bits <= 16 {
            let two = numbers.map(|n| (n as u16).wrapping_add(1 << 15) as i16);
            arrays.push(Arc::new(two.collect::<Int16Array>()));
        }
        for array in arrays {
            for kind in [EncodingKind::Frame, EncodingKind::Delta] {
                let what = format!("{} {kind} {bits}", array.data_type());
                let page = check(&array, &array, forced(kind), &what);
                // Wide numbers take as much as plain ones, and the base comes on top.
                let narrow = kind == EncodingKind::Frame && bits <= 8;
                assert!(!narrow || page.tree() == [kind], "{what}");
            }
        }
    }
}

#[test]
fn integers_that_wrap_around_read_back() {
    // Differences of 1 modulo 2^64 are short.
    let around: Int64Array = (0..1_000).map(|row| (i64::MAX - 500).wrapping_add(row)).collect();
    let delta = PageOptions { choice: Choice::Sampled, compression: Compression::None };
    let page = check(&around, &around, delta, "around the end");
    assert_eq!(page.tree(), [EncodingKind::Delta]);
    let ends: Int64Array = (0..1_000).map(|row| [i64::MIN, i64::MAX][row % 2]).collect();
    for kind in [EncodingKind::Frame, EncodingKind::Delta] {
        let options = PageOptions { choice: Choice::Forced(kind), compression: Compression::None };
        check(&ends, &ends, options, "both ends");
    }
}

#[test]
fn encodings_are_chosen_by_the_values() {
    use EncodingKind::{Constant, Delta, Dictionary, Frame, Fsst, Plain, RunLength};
    let integers = |value: fn(i64) -> i64| -> ArrayRef {
        Arc::new((0..60_000).map(value).collect::<Int64Array>())
    };

    fn mix(row: i64) -> i64 {
        let mixed = (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) as i64
    }
    let texts = |text: fn(i64) -> String| -> ArrayRef {
        Arc::new((0..10_000).map(|row| Some(text(row))).collect::<StringViewArray>())
    };
    let none = PageOptions { choice: Choice::Sampled, compression: Compression::None };
    for (case, array, want) in [
        ("one value", integers(|_| 7), Constant),
        ("any bits", integers(mix), Plain),
        ("ten bits", integers(|row| mix(row) >> 54), Frame),
        ("ascending", integers(|row| (1 << 40) + row * 1_000_000 + (mix(row) >> 60)), Delta),
        ("long runs", integers(|row| row / 500 % 3), RunLength),
        ("short runs of wide values", integers(|row| mix(row / 20)), RunLength),
        ("few wide values", integers(|row| mix(mix(row) >> 60)), Dictionary),
        ("few texts", texts(|row| format!("country {}", mix(row) >> 60)), Dictionary),
        ("paths", texts(|row| format!("https://example.org/path/{}", mix(row))), Fsst),
    ] {
        let page = check(&array, &array, none, case);
        assert_eq!(page.tree()[0], want, "{case}: {:?}", page.tree());
    }
}

#[test]
fn a_long_value_makes_a_page_of_its_own() {
    let texts = ["a", &"b".repeat(3 << 20), "", "c"];
    let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
    for choice in choices() {
        let options = PageOptions { choice, compression: Compression::None };
        let segment = encode_segment(&[(1, array.clone())], &options).unwrap();
        let rows: Vec<u32> =
            segment.descriptor.columns[0].pages.iter().map(|page| page.rows).collect();
        assert_eq!(rows, [1, 1, 2], "{choice:?}");
        for (page, first) in segment.pages[0].iter().zip([0, 1, 2]) {
            let page = Page::open(Buffer::from_slice_ref(page)).unwrap();
            let got = page.decode(array.data_type()).unwrap();
            assert_eq!(got.to_data(), array.slice(first, page.rows()).to_data(), "{choice:?}");
        }
    }
}

#[test]
fn the_longest_value_reads_back_and_a_longer_one_is_refused() {
    let zeros = vec![0; VALUE_BYTES_MAX + 1];
    let longest = BinaryArray::from_iter_values([&zeros[1..]]);
    let options = PageOptions::default();
    let page = encode_page(&longest, &options).unwrap().bytes;
    let got = Page::open(Buffer::from(page)).unwrap().decode(longest.data_type()).unwrap();
    assert_eq!(got.as_binary_view().value(0), longest.value(0));
    let longer: ArrayRef = Arc::new(BinaryArray::from_iter_values([&zeros]));
    assert!(encode_page(&longer, &options).is_err());
    assert!(encode_segment(&[(1, longer)], &options).is_err());
}

#[test]
fn bytes_need_not_be_text() {
    let bytes: Vec<Vec<u8>> = (0..500u32).map(|row| vec![255 - (row % 7) as u8; 13]).collect();
    let array: ArrayRef = Arc::new(BinaryViewArray::from_iter_values(&bytes));
    for choice in choices() {
        let options = PageOptions { choice, compression: Compression::Lz4 };
        check(&array, &array, options, &format!("{choice:?}"));
    }
}

#[test]
fn plain_values_are_decoded_where_they_lie() {
    let array: ArrayRef = Arc::new((0..1_000).map(i64::from).collect::<Int64Array>());
    let plain = Choice::Forced(EncodingKind::Plain);
    let options = PageOptions { choice: plain, compression: Compression::None };
    let bytes = Buffer::from_slice_ref(encode_page(&array, &options).unwrap().bytes);
    let range = bytes.as_ptr_range();
    let decoded = Page::open(bytes).unwrap().decode(array.data_type()).unwrap();
    let data = decoded.to_data();
    assert!(range.contains(&data.buffers()[0].as_ptr()), "no copy was made");
    assert_eq!(data.buffers()[0].as_ptr() as usize % 64, 0);
}

#[test]
fn calls_that_break_a_limit_are_refused() {
    let options = PageOptions::default();
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let page = Page::open(Buffer::from(encode_page(&array, &options).unwrap().bytes)).unwrap();
    assert!(page.decode(&arrow_schema::DataType::Int32).is_err(), "another type");
    assert!(page.decode(&arrow_schema::DataType::Null).is_err(), "a type of no column");
    for rows in [vec![3], vec![1, 1], vec![2, 1]] {
        assert!(page.decode_rows(array.data_type(), &rows).is_err(), "{rows:?}");
    }
    assert!(encode_page(&array.slice(0, 0), &options).is_err(), "no rows");
    let long: ArrayRef = Arc::new((0..=ROWS_MAX as i64).collect::<Int64Array>());
    assert!(encode_page(&long, &options).is_err(), "too many rows");
    let wide: ArrayRef = Arc::new((0..ROWS_MAX as i128).collect::<Decimal128Array>());
    assert!(encode_page(&wide, &options).is_err(), "a page too long");
    for (case, columns) in [
        ("no column", vec![]),
        ("different rows", vec![(1, array.clone()), (2, array.slice(1, 1))]),
        ("numbers that do not ascend", vec![(2, array.clone()), (2, array.clone())]),
        ("too many rows", vec![(1, long)]),
    ] {
        assert!(encode_segment(&columns, &options).is_err(), "{case}");
    }
}
