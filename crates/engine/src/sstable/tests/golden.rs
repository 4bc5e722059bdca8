//! Files of format version 1, kept forever. `v1_plain.sst` must also be written again byte by
//! byte; the compressed ones depend on the codecs' releases and must only be readable. The block
//! in the format page is checked against what the builder writes.
//!
//! After a deliberate change before the first release, `REWRITE=1 cargo test` writes them anew.

use super::*;
use crate::sstable::block::{BlockBuilder, BlockView, NewValue};
use std::path::PathBuf;

fn golden_rows() -> (Rows, Vec<RangeTombstone>) {
    let oldest = 100i64.to_le_bytes();
    let operand = Operand { operator: Operator::MaxInt64, value: -3 }.encode();
    let mut rows: Rows = vec![
        (Vec::new(), vec![put(1, b"", 5, 1, b"empty row, empty qualifier")]),
        (b"ab".to_vec(), vec![put(1, b"q", 2000, 7, b"newer"), put(1, b"q", 1000, 6, b"older")]),
        (
            b"ab\0".to_vec(),
            vec![
                entry_of(Column::ROW, 900, 12, Kind::Tombstone, &oldest),
                entry_of(Column::family(FamilyId(2)), i64::MAX, 13, Kind::Tombstone, &oldest),
                entry_of(Column::of(FamilyId(2), b"d"), 800, 14, Kind::Tombstone, &oldest),
                entry_of(Column::of(FamilyId(2), b"m"), -1, 15, Kind::Merge, &operand),
                put(300, b"large", 1_700_000_000_000_000, 16, &[b'L'; 5000]),
            ],
        ),
    ];
    let wide = (0..50u8).map(|column| put(1, &[b'c', column], 7, 0, &[column; 40])).collect();
    rows.push((b"wide row".to_vec(), wide));
    let range = |start: &[u8], end: Option<&[u8]>, sequence| RangeTombstone {
        start: start.to_vec(),
        end: end.map(<[u8]>::to_vec),
        sequence: SequenceNumber(sequence),
    };
    (rows, vec![range(b"b", Some(b"c"), 20), range(b"x", None, 21)])
}

#[test]
fn files_of_version_1_stay_readable() {
    let (rows, dropped) = golden_rows();
    for (name, compression) in [
        ("v1_plain.sst", Compression::None),
        ("v1_lz4.sst", Compression::Lz4),
        ("v1_zstd.sst", Compression::Zstd),
    ] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/sstable").join(name);
        let (written, _) = build(&rows, &dropped, &SstOptions { compression, ..options() });
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(&path, &written).unwrap();
        }
        let kept = std::fs::read(&path).unwrap();
        if compression == Compression::None {
            assert!(kept == written, "{name} would be written differently now");
        }
        let sst = open(kept).unwrap();
        sst.verify().unwrap();
        assert_eq!(read_all(&sst).unwrap(), rows, "{name}");
        assert_eq!(sst.range_tombstones(), dropped, "{name}");
    }
}

#[test]
fn a_dump_shows_every_entry() {
    let (rows, dropped) = golden_rows();
    let (bytes, _) = build(&rows, &dropped, &options());
    let mut text = Vec::new();
    open(bytes).unwrap().dump(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for shown in
        ["row ab\\x00\n", "300:large Column Put @1700000000000000 #16 at ", "dropped [x, end) #21"]
    {
        assert!(text.contains(shown), "{shown} in\n{text}");
    }
    assert_eq!(text.matches(" @").count(), rows.iter().map(|(_, e)| e.len()).sum::<usize>());
}

/// The example of docs/format/sstable.md.
fn page_example() -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    for (row, timestamp, value) in [(b"user#1", 1000, &b"Ann"[..]), (b"user#2", 2000, b"Bo")] {
        builder.start_row(row);
        let entry = put(1, b"name", timestamp, 0, value);
        assert!(builder.push(&entry.borrow().key(), &NewValue::Inline(value)));
    }
    let mut block = Vec::new();
    builder.finish(&mut block, false);
    block
}

#[test]
fn the_block_in_the_format_page_is_what_is_written() {
    let block = page_example();
    let view = BlockView::new(block.clone()).unwrap();
    assert_eq!(view.rows(), 2);
    let lines = block.chunks(16).enumerate().map(|(line, bytes)| {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}", line * 16, hex.join(" "))
    });
    let page = include_str!("../../../../../docs/format/sstable.md");
    for line in lines.collect::<Vec<_>>() {
        assert!(page.contains(&line), "the page has not: {line}");
    }
}
