//! Damaged pages and descriptors are errors, wherever the damage is.

use crate::arrays::{Shape, column};
use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use arrow_buffer::Buffer;
use columnar::{
    Choice, ColumnType, Compression, EncodingKind, Error, Page, PageOptions, SegmentDescriptor,
    encode_page, encode_segment,
};
use std::sync::Arc;

/// Returns small pages of all encodings, with and without compression.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut pages = Vec::new();
    for column_type in [ColumnType::Boolean, ColumnType::Int64, ColumnType::Utf8] {
        for kind in EncodingKind::ALL {
            for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
                let (array, _) = column(column_type, Shape::Runs, 0.1, 100, 3);
                let options = PageOptions { choice: Choice::Forced(kind), compression };
                let name = format!("{column_type:?} {kind} {compression:?}");
                pages.push((name, encode_page(&array, &options).unwrap().bytes));
            }
        }
    }
    pages
}

fn descriptor() -> Vec<u8> {
    let columns: Vec<(u32, ArrayRef)> = ColumnType::ALL
        .into_iter()
        .zip(1..)
        .map(|(column_type, number)| (number, column(column_type, Shape::Small, 0.1, 50, 9).0))
        .collect();
    encode_segment(&columns, &PageOptions::default()).unwrap().descriptor.encode()
}

fn open(bytes: &[u8]) -> Result<Page, Error> {
    Page::open(Buffer::from_slice_ref(bytes))
}

#[test]
fn a_flipped_byte_anywhere_is_an_error() {
    for (name, page) in pages() {
        for at in 0..page.len() {
            for flip in [1, 0x80, 0xff] {
                let mut page = page.clone();
                page[at] ^= flip;
                assert!(open(&page).is_err(), "{name}: byte {at} ^ {flip}");
            }
        }
    }
    let whole = descriptor();
    for at in 0..whole.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            assert!(SegmentDescriptor::decode(&bytes).is_err(), "byte {at} ^ {flip}");
        }
    }
}

#[test]
fn a_cut_at_every_length_is_an_error() {
    for (name, page) in pages() {
        for len in 0..page.len() {
            assert!(open(&page[..len]).is_err(), "{name}: {len} bytes");
        }
        let longer = [&page[..], &[0]].concat();
        assert!(open(&longer).is_err(), "{name}: a byte too much");
    }
    let whole = descriptor();
    for len in 0..whole.len() {
        assert!(SegmentDescriptor::decode(&whole[..len]).is_err(), "{len} bytes");
    }
    assert!(SegmentDescriptor::decode(&[&whole[..], &[0]].concat()).is_err());
}

#[test]
fn a_later_version_is_told_from_damage() {
    let (_, mut page) = pages().remove(0);
    page[0] = 2;
    assert_eq!(open(&page).err(), Some(Error::Version { found: 2 }));
    page[0] = 0;
    assert!(matches!(open(&page), Err(Error::Corruption { offset: 0, .. })));
    let mut whole = descriptor();
    whole[0] = 9;
    assert_eq!(SegmentDescriptor::decode(&whole), Err(Error::Version { found: 9 }));
}

/// Writes a checksum that matches the other bytes of a page.
fn seal(page: &mut [u8]) {
    let checksum = base::checksum::crc32c(&[&page[..60], &page[64..]]);
    page[60..64].copy_from_slice(&checksum.to_le_bytes());
}

fn page_of(array: &ArrayRef, kind: EncodingKind) -> Vec<u8> {
    let choice = Choice::Forced(kind);
    encode_page(array, &PageOptions { choice, compression: Compression::None }).unwrap().bytes
}

#[test]
fn what_a_checksum_cannot_tell_is_checked() {
    let numbers: ArrayRef = Arc::new((0..100).map(|row| row / 10).collect::<Int64Array>());
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(
        (0..100).map(|row| format!("example text {}", row / 10)),
    ));
    use EncodingKind::{Dictionary, Frame, Fsst, Plain, RunLength};
    for (case, page, at, byte) in [
        ("type of no column", page_of(&numbers, Plain), 1, 14),
        ("another type", page_of(&numbers, Plain), 1, ColumnType::Int16 as u8),
        ("another compression", page_of(&numbers, Plain), 2, 1),
        ("reserved byte", page_of(&numbers, Plain), 40, 1),
        ("no rows", page_of(&numbers, Plain), 4, 0),
        ("more rows than values", page_of(&numbers, Plain), 4, 101),
        ("fewer rows than values", page_of(&numbers, Plain), 4, 99),
        ("nulls without a bitmap", page_of(&numbers, Plain), 8, 1),
        ("body longer than the page", page_of(&numbers, Plain), 12, 0xff),
        ("tag 0", page_of(&numbers, Plain), 20, 0),
        ("tag of no encoding", page_of(&numbers, Plain), 20, 8),
        ("tag left over", page_of(&numbers, Plain), 21, 1),
        ("frame with too many bits", page_of(&numbers, Frame), 64 + 8, 65),
        ("frame with other bits", page_of(&numbers, Frame), 64 + 8, 5),
        ("padding", page_of(&numbers, Frame), 64 + 9, 1),
        ("no runs", page_of(&numbers, RunLength), 64, 0),
        ("runs that are too many", page_of(&numbers, RunLength), 64, 101),
        ("runs that are too short", page_of(&numbers, RunLength), 64 + 8, 9),
        ("runs that are too long", page_of(&numbers, RunLength), 64 + 8, 11),
        ("dictionary that is too small", page_of(&numbers, Dictionary), 64, 9),
        ("dictionary without values", page_of(&numbers, Dictionary), 64, 0),
        ("first offset of text", page_of(&texts, Plain), 64, 1),
        ("offsets of text that descend", page_of(&texts, Plain), 64 + 4 * 50 + 1, 0),
        ("text that is not UTF-8", page_of(&texts, Plain), 64 + 404 + 5, 0xff),
        ("length of a symbol", page_of(&texts, Fsst), 65, 9),
        ("length 0 of a symbol", page_of(&texts, Fsst), 65, 0),
    ] {
        let mut page = page;
        assert_ne!(page[at], byte, "{case}: the byte changes");
        page[at] = byte;
        seal(&mut page);
        let array =
            if case.contains("text") || case.contains("symbol") { &texts } else { &numbers };
        let all: Vec<u32> = (0..99).collect();
        let error = open(&page).and_then(|page| page.decode(array.data_type())).err();
        assert!(error.is_some(), "{case}");
        let error = open(&page).and_then(|page| page.decode_rows(array.data_type(), &all)).err();
        assert!(error.is_some(), "{case}, rows");
    }
}

#[test]
fn text_is_checked_where_a_boundary_cuts_a_character() {
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(
        std::iter::once("aé").chain(std::iter::repeat_n("bc", 30)),
    ));
    let mut page = page_of(&texts, EncodingKind::Plain);
    assert_eq!(page[64 + 4], 3, "end of the first text");
    page[64 + 4] = 2;
    seal(&mut page);
    for rows in [None, Some(&[0][..]), Some(&[1, 2][..])] {
        let page = open(&page).unwrap();
        let array = match rows {
            None => page.decode(texts.data_type()),
            Some(rows) => page.decode_rows(texts.data_type(), rows),
        };
        assert!(matches!(array, Err(Error::Corruption { .. })), "{rows:?}");
    }
}

#[test]
fn lengths_are_checked_before_they_allocate() {
    let texts: ArrayRef =
        Arc::new(StringViewArray::from_iter_values(["aaaaaaaaaaaaaaaaaaaaaa"; 9]));
    let lz4 =
        PageOptions { choice: Choice::Forced(EncodingKind::Plain), compression: Compression::Lz4 };
    let mut page = encode_page(&texts, &lz4).unwrap().bytes;
    assert_eq!(page[2], Compression::Lz4 as u8);
    for (case, body) in [("4 GiB", u32::MAX), ("a page", 1 << 20), ("a byte more", 239)] {
        page[12..16].copy_from_slice(&u32::to_le_bytes(body));
        seal(&mut page);
        assert!(matches!(open(&page), Err(Error::Corruption { .. })), "{case}");
    }
}
