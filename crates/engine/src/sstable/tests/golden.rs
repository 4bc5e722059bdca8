//! Files of each format version, kept forever. Those that are not compressed must also be written
//! again byte by byte; the compressed ones depend on the codecs' releases and must only be readable.
//! The block in the format page is checked against what the builder writes.
//!
//! After a deliberate change before the first release, `REWRITE=1 cargo test` writes them anew.

use super::*;
use crate::files::FileIdentity;
use crate::sstable::block::{BlockBuilder, BlockView, DataMeta, NewValue};
use crate::sstable::format::Footer;
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

/// The versions of the format.
const VERSIONS: [u16; 2] = [1, 2];

/// A builder of a file of `version`.
fn of_version(version: u16) -> impl Fn(SstBuilder) -> SstBuilder {
    move |builder| match version {
        1 => builder.of_version_1(),
        _ => builder.with_identity(FileIdentity(0x5e1e << 112 | 7)),
    }
}

/// The file that is kept under `name`; `written`, if it is to be written anew.
fn kept(name: &str, written: &[u8]) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/sstable").join(name);
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, written).unwrap();
    }
    std::fs::read(&path).unwrap()
}

#[test]
fn files_of_every_version_stay_readable() {
    let (rows, dropped) = golden_rows();
    let compressions =
        [("plain", Compression::None), ("lz4", Compression::Lz4), ("zstd", Compression::Zstd)];
    let cases = VERSIONS.iter().flat_map(|version| compressions.map(|case| (*version, case)));
    for (version, (name, compression)) in cases {
        let name = format!("v{version}_{name}.sst");
        let options = SstOptions { compression, ..options() };
        let (written, _) = build_by(&rows, &dropped, &options, of_version(version));
        let kept = kept(&name, &written);
        let footer = Footer::decode(kept.last_chunk().unwrap()).unwrap();
        assert_eq!(footer.identity.is_some(), version > 1, "{name}");
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
fn a_file_with_row_prefixes_stays_readable() {
    for version in VERSIONS {
        prefixes_stay_readable(version);
    }
}

fn prefixes_stay_readable(version: u16) {
    let (rows, dropped) = golden_rows();
    let (written, _) = build_by(&rows, &dropped, &prefixed_options(), of_version(version));
    let kept = kept(&format!("v{version}_prefixes.sst"), &written);
    assert!(kept == written, "the file would be written differently now");
    let sst = open(kept).unwrap();
    sst.verify().unwrap();
    assert_eq!(read_all(&sst).unwrap(), rows);
    let says = |prefix: &[u8]| {
        sst.filter_says(&RowRange::prefix(prefix), &FilterQuery::prefix(prefix)).unwrap()
    };
    // Before the first row with it there is a row, so the filter is asked.
    assert_eq!([says(b"ab"), says(b"wi"), says(b"no")], [Some(true), Some(true), Some(false)]);
}

/// Rows of a file to be ingested: puts of no number.
fn ingested_rows() -> Rows {
    let wide = (0..50u8).map(|column| put(1, &[b'c', column], 7, 0, &[column; 40])).collect();
    vec![
        (b"a".to_vec(), vec![put(1, b"q", 2000, 0, b"newer"), put(1, b"q", 1000, 0, b"older")]),
        (b"b".to_vec(), vec![put(300, b"large", 1_700_000_000_000_000, 0, &[b'L'; 5000])]),
        (b"wide row".to_vec(), wide),
    ]
}

fn build_ingested(rows: &Rows, version: u16) -> Vec<u8> {
    let file = MemoryFile::default();
    let path = Path::new("7.sst");
    let builder = SstBuilder::for_ingest(Box::new(file.clone()), path, options());
    let mut builder = of_version(version)(builder);
    for (row, entries) in rows {
        entries.iter().for_each(|entry| builder.add(row, &entry.borrow()).unwrap());
    }
    builder.finish(FileNumber(7)).unwrap();
    std::mem::take(&mut *file.0.lock())
}

#[test]
fn an_ingested_file_has_the_number_that_it_is_given() {
    for version in VERSIONS {
        an_ingested_file_has_its_number(version);
    }
}

fn an_ingested_file_has_its_number(version: u16) {
    let mut rows = ingested_rows();
    let written = build_ingested(&rows, version);
    let kept = kept(&format!("v{version}_ingested.sst"), &written);
    assert!(kept == written, "the file would be written differently now");
    let number = SequenceNumber(4711);
    let sst = SstReader::numbered(open(kept.clone()).unwrap(), number);
    assert_eq!((sst.properties().sequence_min, sst.properties().sequence_max), (number, number));
    sst.verify().unwrap();
    rows.iter_mut().flat_map(|(_, entries)| entries).for_each(|entry| entry.sequence = number);
    assert_eq!(read_all(&sst).unwrap(), rows);
    // An older program refuses the feature as it refuses this one.
    let mut newer = kept;
    let footer = newer.len() - 64;
    newer[footer + 36] = 5;
    let checksum = base::checksum::xxh3(&newer[footer..footer + 48]).to_le_bytes();
    newer[footer + 48..footer + 56].copy_from_slice(&checksum);
    let error = open(newer).unwrap_err();
    assert!(matches!(&error, Error::Unusable { what, .. } if what.contains("0x4")), "{error:?}");
}

#[test]
fn an_ingested_file_with_a_number_in_it_is_damaged() {
    let mut rows = ingested_rows();
    rows[0].1[0].sequence = SequenceNumber(1);
    let error = open(build_ingested(&rows, 2)).unwrap_err();
    assert!(matches!(error, Error::Corruption(_)), "{error:?}");
}

#[test]
fn another_file_keeps_its_numbers() {
    let (rows, dropped) = golden_rows();
    let (bytes, _) = build(&rows, &dropped, &options());
    let sst = SstReader::numbered(open(bytes).unwrap(), SequenceNumber(4711));
    assert_eq!(read_all(&sst).unwrap(), rows);
}

#[test]
fn a_dump_shows_every_entry() {
    let (rows, dropped) = golden_rows();
    let (bytes, _) = build(&rows, &dropped, &options());
    let mut text = Vec::new();
    open(bytes).unwrap().dump(&crate::sstable::DumpOptions::default(), &mut text).unwrap();
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
    let meta = DataMeta::check(&block).unwrap();
    assert_eq!(BlockView::of(&block, &meta).rows(), 2);
    let lines = block.chunks(16).enumerate().map(|(line, bytes)| {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}", line * 16, hex.join(" "))
    });
    let page = include_str!("../../../../../docs/format/sstable.md");
    for line in lines.collect::<Vec<_>>() {
        assert!(page.contains(&line), "the page has not: {line}");
    }
}
