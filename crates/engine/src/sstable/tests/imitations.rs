//! Values that hold the bytes of a block, of a header or of a whole SSTable: of a file of version 2
//! nothing is taken for what it is not, and of one of version 1 it is told what may be.

use super::salvage::{Salvaged, salvage};
use super::*;
use crate::error::Corruption;
use crate::files::FileIdentity;
use crate::manifest::SstMeta;
use crate::sstable::block::{BlockBuilder, NewValue};
use crate::sstable::format::block_identity::{Frames, encode_header};
use crate::sstable::format::{BlockType, Sealer};
use base::checksum::xxh3;

const IDENTITY: FileIdentity = FileIdentity(0xfeed << 80 | 1);

/// A file of 300 rows in many blocks, one of which has a large `value`; and where that lies.
pub(super) fn file_with_value(value: &[u8], version: u16) -> (Rows, Vec<u8>, SstMeta, u64) {
    let mut rows: Rows = (0..300u32)
        .map(|row| (format!("row{row:04}").into_bytes(), vec![put(1, b"q", 5, 9, &[7; 40])]))
        .collect();
    rows[150].1.push(put(2, b"large", 5, 9, value));
    let with = |builder: SstBuilder| match version {
        1 => builder.of_version_1(),
        _ => builder.with_identity(IDENTITY),
    };
    let (bytes, meta) = build_by(&rows, &[], &options(), with);
    let sst = open(bytes.clone()).unwrap();
    let index = sst.index(0, CacheFill::Bypass).unwrap();
    let mut handles = (0..index.view().blocks()).map(|block| index.view().handle(block));
    // Between two data blocks that do not follow each other.
    let mut end = handles.next().unwrap().end().unwrap();
    for handle in handles {
        if handle.offset != end {
            break;
        }
        end = handle.end().unwrap();
    }
    (rows, bytes, meta, end)
}

/// The bytes that a data block with one row would have at the place of `seed`.
fn framed_block(row: &[u8], seed: u64) -> Vec<u8> {
    let mut block = BlockBuilder::default();
    block.start_row(row);
    let entry = put(1, b"q", 5, 9, b"forged");
    assert!(block.push(&entry.borrow().key(), &NewValue::Inline(b"forged")));
    let mut out = Vec::new();
    block.finish(&mut out, false);
    Sealer::new(Compression::None, 0).seal(&mut out, 0, BlockType::Data, seed);
    out
}

/// A value that begins with the bytes of a block, whatever file and place that is of, is no block
/// when the footer is gone.
#[test]
fn a_value_that_looks_like_a_block_is_none() {
    let here = file_with_value(&[0; 5000], 2).3;
    let elsewhere = Frames::Of(FileIdentity(IDENTITY.0 + 1)).seed(here);
    for seed in [0, elsewhere, Frames::Of(IDENTITY).seed(here + 1)] {
        let mut value = framed_block(b"zzz", seed);
        value.resize(5000, 7);
        let (rows, mut bytes, meta, _) = file_with_value(&value, 2);
        let footer = bytes.len() - 30;
        bytes[footer] ^= 1;
        for meta in [None, Some(&meta)] {
            let (found, lost, _) = salvage(bytes.clone(), meta).unwrap();
            assert_eq!((found == rows, lost), (true, vec![]), "seed {seed}");
        }
    }
}

/// In a file of version 1 it may be taken for one. Then it is said that rows are missing, and which
/// ones may not be the file's own.
#[test]
fn what_a_value_imitates_in_a_file_of_version_1_is_told_as_lost() {
    for row in [&b"zzz"[..], b"row0150\0", b"a"] {
        let mut value = framed_block(row, 0);
        value.resize(5000, 7);
        let (rows, mut bytes, meta, _) = file_with_value(&value, 1);
        let footer = bytes.len() - 30;
        bytes[footer] ^= 1;
        for meta in [None, Some(&meta)] {
            let (found, lost, _) = salvage(bytes.clone(), meta).unwrap();
            let is_lost = |row: &[u8]| lost.iter().any(|lost| lost.rows.contains(row));
            let case = format!("{}, known {}, {lost:?}", row.escape_ascii(), meta.is_some());
            for (row, _) in rows.iter().filter(|row| !found.contains(row)) {
                assert!(is_lost(row), "{case}: {} is missing", row.escape_ascii());
            }
            for (row, _) in found.iter().filter(|row| !rows.contains(row)) {
                assert!(is_lost(row), "{case}: {} was invented", row.escape_ascii());
            }
            assert!(is_lost(&rows[299].0), "{case}");
        }
    }
}

/// The frame of a block of this kind, as in a file of version 1.
fn framed(kind: BlockType, stored: &[u8]) -> Vec<u8> {
    let mut out = stored.to_vec();
    Sealer::new(Compression::None, 0).seal(&mut out, 0, kind, 0);
    out
}

/// A sound SSTable of two rows and a range tombstone, by itself.
fn sound_sst(version: u16) -> Vec<u8> {
    let rows: Rows = [&b"row0007"[..], b"row0008"]
        .map(|row| (row.to_vec(), vec![put(1, b"q", 5, 9, b"of another file")]))
        .to_vec();
    let all = RangeTombstone { start: vec![], end: None, sequence: SequenceNumber(9) };
    build_by(&rows, &[all], &options(), |builder| match version {
        1 => builder.of_version_1(),
        _ => builder.with_identity(FileIdentity(1)),
    })
    .0
}

/// Values that begin with what stands behind the data blocks of a file.
fn values_past_data() -> Vec<(&'static str, Vec<u8>)> {
    let row_and_filter =
        [framed_block(b"row0150\0", 0), framed(BlockType::Filter, &[0; 64])].concat();
    let values = [
        ("a filter", framed(BlockType::Filter, &[0; 64])),
        ("an index", framed(BlockType::Index, b"index")),
        ("a top index", framed(BlockType::TopIndex, b"top")),
        ("a row and a filter", row_and_filter),
        ("an SSTable", sound_sst(1)),
    ];
    let long = |(case, mut value): (_, Vec<u8>)| {
        value.resize(9000, 7);
        (case, value)
    };
    values.map(long).to_vec()
}

/// Each row of the file is there, or said to be lost; each that is not the file's own is said to be
/// lost too, and no range tombstone is given.
fn all_is_told(rows: &Rows, salvaged: &Salvaged, case: &str) {
    let (found, lost, ranges) = salvaged;
    let is_lost = |row: &[u8]| lost.iter().any(|lost| lost.rows.contains(row));
    for (row, _) in rows.iter().filter(|row| !found.contains(row)) {
        assert!(is_lost(row), "{case}: {} is missing, {lost:?}", row.escape_ascii());
    }
    for (row, _) in found.iter().filter(|row| !rows.contains(row)) {
        assert!(is_lost(row), "{case}: {} was invented, {lost:?}", row.escape_ascii());
    }
    assert!(ranges.as_ref().is_none_or(Vec::is_empty), "{case}: {ranges:?}");
}

/// The walk for an index partition that cannot be read ends with the partition's data blocks.
#[test]
fn what_stands_behind_data_blocks_ends_no_index_partition() {
    for (case, value) in values_past_data() {
        let (rows, bytes, meta, _) = file_with_value(&value, 1);
        let index = open(bytes.clone()).unwrap().top.partitions()[0].index;
        for also in [None, Some("properties")] {
            let mut bytes = bytes.clone();
            bytes[index.offset as usize] ^= 1;
            if also.is_some() {
                let properties = open(bytes.clone()).unwrap().footer.properties;
                bytes[properties.offset as usize] ^= 1;
            }
            for meta in [None, Some(&meta)] {
                let salvaged = salvage(bytes.clone(), meta).unwrap();
                let case = format!("{case}, {also:?} damaged, known {}", meta.is_some());
                let (found, lost, ranges) = &salvaged;
                let all = (found.clone(), lost.clone(), also.and(ranges.clone()));
                all_is_told(&rows, &all, &case);
            }
        }
    }
}

/// Rows that a value invents cost no row of the partitions behind it.
#[test]
fn rows_of_later_partitions_outlive_a_value_that_imitates_a_block() {
    let mut value = framed_block(b"zzz", 0);
    value.resize(5000, 7);
    let row = |row: u32| (format!("row{row:05}").into_bytes(), vec![put(1, b"q", 5, 9, &[7; 900])]);
    let mut rows: Rows = (0..600).map(row).collect();
    rows[20].1.push(put(2, b"large", 5, 9, &value));
    let (mut bytes, _) = build_by(&rows, &[], &options(), SstBuilder::of_version_1);
    let sst = open(bytes.clone()).unwrap();
    let [first, second, ..] = sst.top.partitions() else { panic!("the test wants partitions") };
    bytes[first.index.offset as usize] ^= 1;
    let (found, lost, ranges) = salvage(bytes, None).unwrap();
    let behind = rows.iter().filter(|(row, _)| *row >= second.row);
    let kept = behind.clone().filter(|row| found.contains(row)).count();
    assert_eq!(kept, behind.count(), "{lost:?}");
    all_is_told(&rows, &(found, lost, ranges), "zzz");
}

/// The walk without a footer ends where the manifest or the file's own properties say that it may.
#[test]
fn what_stands_behind_data_blocks_ends_no_file_of_version_1() {
    for (case, value) in values_past_data() {
        let (rows, mut bytes, meta, _) = file_with_value(&value, 1);
        let footer = bytes.len() - 30;
        bytes[footer] ^= 1;
        for meta in [None, Some(&meta)] {
            let salvaged = salvage(bytes.clone(), meta).unwrap();
            all_is_told(&rows, &salvaged, &format!("{case}, known {}", meta.is_some()));
        }
    }
}

/// Where no value imitates anything, a lost footer costs nothing in version 1 either.
#[test]
fn a_file_of_version_1_without_its_footer_loses_nothing() {
    let (rows, bytes, meta, _) = file_with_value(&[7; 5000], 1);
    for cut in [0, 1, 63, 64] {
        let mut bytes = bytes[..bytes.len() - cut].to_vec();
        let end = bytes.len();
        bytes[end.saturating_sub(64 - cut)..].fill(0xee);
        for meta in [None, Some(&meta)] {
            let (found, lost, ranges) = salvage(bytes.clone(), meta).unwrap();
            assert_eq!((found == rows, lost), (true, vec![]), "cut by {cut}");
            assert_eq!(ranges, Some(vec![]), "cut by {cut}");
        }
    }
}

/// The bytes of the header of a version that this program does not know.
fn newer_header() -> Vec<u8> {
    let mut header = encode_header(FileIdentity(1));
    header[8] = 3;
    let checksum = xxh3(&header[..32]).to_le_bytes();
    header[32..].copy_from_slice(&checksum);
    header.to_vec()
}

/// A file of version 1 may begin with a value that begins as a file of version 2 does.
#[test]
fn a_first_value_that_imitates_a_header_is_none() {
    let headers = [encode_header(FileIdentity(1)).to_vec(), newer_header(), sound_sst(2)];
    for (at, mut value) in headers.into_iter().enumerate() {
        value.resize(5000, 7);
        let row = |row: u32| (format!("row{row:04}").into_bytes(), vec![put(1, b"q", 5, 9, b"v")]);
        let mut rows: Rows = (0..100).map(row).collect();
        rows[0].1[0].value = value;
        let (mut bytes, meta) = build_by(&rows, &[], &options(), SstBuilder::of_version_1);
        assert!(bytes.starts_with(b"STELEHDR"), "the test wants the value first");
        let footer = bytes.len() - 30;
        bytes[footer] ^= 1;
        for meta in [None, Some(&meta)] {
            let (found, lost, _) = salvage(bytes.clone(), meta).unwrap();
            assert_eq!((found == rows, lost), (true, vec![]), "header {at}");
        }
    }
}

/// A file may be cut where an SSTable ends that one of its values holds: that has a footer.
#[test]
fn a_footer_that_leads_nowhere_is_none() {
    for (version, inner) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let value = sound_sst(inner);
        let mut long = value.clone();
        long.resize(9000, 7);
        let (rows, bytes, meta, _) = file_with_value(&long, version);
        let start = bytes.windows(value.len()).position(|part| part == value).unwrap();
        let cut = bytes[..start + value.len()].to_vec();
        for meta in [None, Some(&meta)] {
            let case = format!("version {version}, {inner} in it, known {}", meta.is_some());
            let salvaged = salvage(cut.clone(), meta).unwrap();
            all_is_told(&rows, &salvaged, &case);
            let kept = rows[..130].iter().filter(|row| salvaged.0.contains(row)).count();
            assert_eq!(kept, 130, "{case}: rows before the value are not read");
        }
    }
}

/// A file of version 1 whose first block is a value that is an SSTable is, cut where that ends, that
/// SSTable: only the manifest tells.
#[test]
fn a_first_value_that_is_an_sstable_is_not_the_file() {
    for (version, inner) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let value = sound_sst(inner);
        let mut long = value.clone();
        long.resize(9000, 7);
        let row = |row: u32| (format!("row{row:04}").into_bytes(), vec![put(1, b"q", 5, 9, b"v")]);
        let mut rows: Rows = (0..100).map(row).collect();
        rows[0].1[0].value = long;
        let (bytes, meta) = build_by(&rows, &[], &options(), |builder| match version {
            1 => builder.of_version_1(),
            _ => builder.with_identity(IDENTITY),
        });
        let start = bytes.windows(value.len()).position(|part| part == value).unwrap();
        let cut = bytes[..start + value.len()].to_vec();
        let salvaged = salvage(cut, Some(&meta)).unwrap();
        all_is_told(&rows, &salvaged, &format!("version {version}, {inner} in it"));
    }
}

/// The end of another file, or of an older one that was overwritten, may follow the start of this one.
#[test]
fn a_footer_of_another_identity_than_the_header_is_none() {
    let (rows, bytes, meta, _) = file_with_value(&[0; 5000], 2);
    let mut other = bytes.clone();
    other[..40].copy_from_slice(&encode_header(FileIdentity(1)));
    let opened = open(other.clone()).map(|_| ());
    match opened {
        Err(Error::Corruption(Corruption { what, .. })) => {
            assert!(what.contains("identity"), "{what}")
        }
        other => panic!("{other:?}"),
    }
    let longer = SstMeta { entries: meta.entries + 1, ..meta.clone() };
    for meta in [None, Some(&longer)] {
        let (rows, lost, ranges) = salvage(other.clone(), meta).unwrap();
        assert!(rows.is_empty() && !lost.is_empty(), "{lost:?}");
        assert!(ranges.is_none_or(|ranges| ranges.is_empty()));
    }
    // The manifest tells that the header is the other file's.
    let (found, lost, _) = salvage(other, Some(&meta)).unwrap();
    assert_eq!((found == rows, lost), (true, vec![]));
}
