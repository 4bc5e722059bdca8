//! Segments: how columns are cut, and what descriptors say of them.

use crate::arrays::{SHAPES, Shape, column};
use arrow_array::{Array, ArrayRef, Int64Array, StringViewArray};
use arrow_buffer::Buffer;
use columnar::{
    ColumnType, PAGE_BYTES_MAX, Page, PageOptions, ROWS_MAX, SegmentDescriptor, encode_segment,
};
use std::sync::Arc;

#[test]
fn segments_read_back_page_by_page() {
    for (shape, seed) in SHAPES.into_iter().zip(40..) {
        let (columns, want): (Vec<(u32, ArrayRef)>, Vec<ArrayRef>) = ColumnType::ALL
            .into_iter()
            .zip([2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, u32::MAX])
            .map(|(column_type, number)| {
                let (array, want) = column(column_type, shape, 0.1, ROWS_MAX, seed);
                ((number, array), want)
            })
            .unzip();
        let segment = encode_segment(&columns, &PageOptions::default()).unwrap();
        let bytes = segment.descriptor.encode();
        let descriptor = SegmentDescriptor::decode(&bytes).unwrap();
        assert_eq!(descriptor.encode(), bytes, "{shape:?}");
        assert_eq!(descriptor.rows as usize, ROWS_MAX);
        for (((number, _), want), pages) in columns.iter().zip(&want).zip(&segment.pages) {
            let what = format!("{shape:?} {} seed {seed}", want.data_type());
            let column = descriptor.column(*number).unwrap();
            assert_eq!(column.count() as usize, want.len() - want.null_count(), "{what}");
            assert_eq!(column.pages.len(), pages.len(), "{what}");
            for ((first, described), bytes) in column.pages_with_first_row().zip(pages) {
                assert!(bytes.len() <= PAGE_BYTES_MAX, "{what}");
                assert_eq!(bytes.len(), described.stored_bytes as usize, "{what}");
                let page = Page::open(Buffer::from_slice_ref(bytes)).unwrap();
                let got = page.decode(want.data_type()).unwrap();
                let want = want.slice(first as usize, described.rows as usize);
                assert_eq!(got.to_data(), want.to_data(), "{what}, from row {first}");
                assert_eq!(want.null_count(), described.nulls as usize, "{what}");
            }
        }
        assert_eq!(descriptor.column(4), None);
    }
}

#[test]
fn sketches_count_different_values_over_segments() {
    let segment = |from: i64| {
        let integers = (from..from + 50_000).map(|value| (value % 7 != 0).then_some(value));
        let texts = (from..from + 50_000).map(|value| Some(format!("text {}", value % 900)));
        let columns: [(u32, ArrayRef); 2] = [
            (1, Arc::new(integers.collect::<Int64Array>())),
            (2, Arc::new(texts.collect::<StringViewArray>())),
        ];
        encode_segment(&columns, &PageOptions::default()).unwrap().descriptor
    };
    let (mut first, second) = (segment(0), segment(25_000));
    let near = |estimate: u64, count: u64| estimate.abs_diff(count) * 10 < count;
    assert!(near(first.columns[0].distinct.estimate(), 42_857));
    assert!(near(first.columns[1].distinct.estimate(), 900));
    for (column, other) in first.columns.iter_mut().zip(&second.columns) {
        column.distinct.merge(&other.distinct);
    }
    assert!(near(first.columns[0].distinct.estimate(), 64_285));
    assert!(near(first.columns[1].distinct.estimate(), 900));
}

#[test]
fn columns_are_cut_into_pages_of_as_many_rows_as_a_batch_has() {
    for (rows, pages) in
        [(8_192, vec![8_192]), (8_193, vec![8_192, 1]), (20_000, vec![8_192, 8_192, 3_616])]
    {
        for column_type in [ColumnType::Decimal128, ColumnType::Boolean, ColumnType::Int32] {
            let (array, _) = column(column_type, Shape::Random, 0.5, rows, 1);
            let segment = encode_segment(&[(1, array)], &PageOptions::default()).unwrap();
            let found = segment.descriptor.columns[0].pages.iter().map(|page| page.rows);
            assert_eq!(found.collect::<Vec<u32>>(), pages, "{column_type:?}");
        }
    }
    let texts: ArrayRef = Arc::new((0..10_000).map(|_| Some("x")).collect::<StringViewArray>());
    let segment = encode_segment(&[(1, texts)], &PageOptions::default()).unwrap();
    let rows: Vec<u32> = segment.descriptor.columns[0].pages.iter().map(|page| page.rows).collect();
    assert_eq!(rows, [8_192, 1_808]);
}
