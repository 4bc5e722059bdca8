//! Damaged files: whatever byte is flipped and wherever the file is cut, reading gives the right
//! answer or `Error::Corruption` with the file and an offset in it; and the bodies of the fuzz
//! targets stand mutated blocks.

use super::*;
use crate::error::Corruption;
use crate::sstable::format::BlockType;
use crate::sstable::fuzz;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A small file with every kind of block and entry.
fn example() -> (Rows, Vec<RangeTombstone>, Vec<u8>) {
    let oldest = i64::MIN.to_le_bytes();
    let operand = Operand { operator: Operator::SumInt64, value: 5 }.encode();
    let mut rows: Rows = vec![
        (b"apple".to_vec(), vec![put(1, b"a", 9, 3, b"value"), put(1, b"a", 8, 2, b"")]),
        (
            b"apple pie".to_vec(),
            vec![
                entry_of(Column::ROW, 7, 9, Kind::Tombstone, &oldest),
                entry_of(Column::family(FamilyId(1)), 7, 9, Kind::Tombstone, &oldest),
                entry_of(Column::of(FamilyId(1), b"n"), 5, 9, Kind::Merge, &operand),
                put(2, b"large", 5, 9, &[b'x'; 300]),
            ],
        ),
    ];
    let wide = (0..60).map(|column| put(3, &[b'c', column], 1, 0, &[column; 20])).collect();
    rows.push((b"wide".to_vec(), wide));
    let start = b"b".to_vec();
    let dropped =
        vec![RangeTombstone { start, end: Some(b"c".to_vec()), sequence: SequenceNumber(4) }];
    let options =
        SstOptions { compression: Compression::Lz4, large_value_bytes: 256, ..prefixed_options() };
    let (bytes, _) = build(&rows, &dropped, &options);
    (rows, dropped, bytes)
}

/// All that can be read of a file: rows, ranges, and answers of the filter.
fn everything(bytes: Vec<u8>) -> Result<(Rows, Vec<RangeTombstone>, Vec<bool>)> {
    let sst = open(bytes)?;
    let rows = read_all(&sst)?;
    let mut cursor = sst.cursor(CacheFill::Insert);
    cursor.seek_before(None)?;
    while cursor.row().is_some() {
        cursor.prev_row()?;
    }
    let mut answers = Vec::new();
    for row in [&b"apple"[..], b"apple pie", b"wide", b"x"] {
        answers.push(sst.may_contain(&FilterQuery::row(row))?);
        answers.push(sst.may_contain(&FilterQuery::column(row, FamilyId(3), &[b'c', 7]))?);
        if let Some(prefix) = row.get(..2) {
            let says = sst.filter_says(&RowRange::prefix(prefix), &FilterQuery::prefix(prefix))?;
            answers.push(says != Some(false));
        }
    }
    Ok((rows, sst.range_tombstones().to_vec(), answers))
}

fn assert_is_corruption(error: &Error, len: usize) {
    match error {
        Error::Corruption(Corruption { file, offset, what }) => {
            assert_eq!(file, Path::new("7.sst"));
            assert!(*offset <= len as u64, "offset {offset} of {len}: {what}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_flipped_byte_is_corruption_or_harmless() {
    let (rows, dropped, bytes) = example();
    let whole = everything(bytes.clone()).unwrap();
    assert_eq!((&whole.0, &whole.1), (&rows, &dropped));
    assert!(open(bytes.clone()).unwrap().verify().is_ok());
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut flipped = bytes.clone();
            flipped[at] ^= flip;
            match everything(flipped.clone()) {
                Ok(read) => assert!(read == whole, "byte {at} flipped gives another answer"),
                Err(error) => assert_is_corruption(&error, bytes.len()),
            }
            let verdict = open(flipped).and_then(|sst| sst.verify());
            assert_is_corruption(&verdict.expect_err("a check finds every flip"), bytes.len());
        }
    }
}

#[test]
fn a_cut_file_is_corruption() {
    let (_, _, bytes) = example();
    for len in 0..bytes.len() {
        let error = everything(bytes[..len].to_vec()).expect_err("it has no footer");
        assert_is_corruption(&error, bytes.len());
    }
}

#[test]
fn bytes_after_the_footer_are_corruption() {
    let (_, _, mut bytes) = example();
    bytes.extend_from_slice(&[0; 100]);
    assert_is_corruption(&everything(bytes.clone()).expect_err("not a footer"), bytes.len());
}

#[test]
fn a_newer_version_is_refused_with_what_to_do() {
    let (_, _, mut bytes) = example();
    let footer = bytes.len() - 64;
    bytes[footer + 46] = 3;
    let checksum = base::checksum::xxh3(&bytes[footer..footer + 48]).to_le_bytes();
    bytes[footer + 48..footer + 56].copy_from_slice(&checksum);
    match open(bytes).expect_err("a newer version") {
        Error::Unusable { what, .. } => assert!(what.contains("newer Stele"), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// The raw bytes of all blocks of one type in a file.
fn raw_blocks(rows: &Rows, kind: BlockType) -> Vec<Vec<u8>> {
    let dropped = [RangeTombstone { start: b"b".to_vec(), end: None, sequence: SequenceNumber(4) }];
    let (bytes, _) = build(rows, &dropped, &prefixed_options());
    let sst = open(bytes).unwrap();
    let mut handles = Vec::new();
    match kind {
        BlockType::Properties => handles.push(sst.footer.properties),
        BlockType::TopIndex => handles.push(sst.footer.top_index),
        BlockType::RangeTombstones => handles.extend(sst.footer.range_tombstones),
        _ => {}
    }
    for (at, partition) in sst.top.partitions().iter().enumerate() {
        let index = sst.index(at, CacheFill::Bypass).unwrap();
        match kind {
            BlockType::Index => handles.push(partition.index),
            BlockType::Filter => handles.extend(partition.filter),
            BlockType::Data => {
                handles.extend((0..index.view().blocks()).map(|b| index.view().handle(b)))
            }
            _ => {}
        }
    }
    let raw = |handle| sst.source.read_checked(handle, kind, |bytes| Ok(bytes.to_vec())).unwrap();
    handles.into_iter().map(raw).collect()
}

/// Calls a fuzz body with mutations of `seeds`, each after the byte `choice`.
fn fuzz_with(body: fn(&[u8]), choice: Option<u8>, seeds: &[Vec<u8>], rounds: usize) {
    assert!(!seeds.is_empty());
    let mut random = StdRng::seed_from_u64(20_261_121);
    for round in 0..rounds {
        let mut data: Vec<u8> = choice.into_iter().collect();
        data.extend_from_slice(&seeds[round % seeds.len()]);
        for _ in 0..random.random_range(0..4) {
            mutate(&mut data, usize::from(choice.is_some()), &mut random);
        }
        body(&data);
    }
}

fn mutate(data: &mut Vec<u8>, from: usize, random: &mut StdRng) {
    if data.len() <= from {
        return;
    }
    // Headers decide most, so they are hit more often.
    let end = if random.random() { data.len() } else { data.len().min(from + 128) };
    let at = random.random_range(from..end);
    match random.random_range(0..6) {
        0 => data[at] = random.random(),
        1 => data[at] ^= 1 << random.random_range(0..8),
        2 => data[at] = data[at].wrapping_add(1),
        3 => data[at] = if random.random() { 0 } else { 0xff },
        4 => data.truncate(at),
        _ => data.insert(at, random.random()),
    }
}

#[test]
fn fuzz_bodies_stand_mutated_blocks() {
    let (rows, _, _) = example();
    let many: Rows = (0u32..2000)
        .map(|row| (row.to_be_bytes().to_vec(), vec![put(1, b"q", row.into(), 1, b"v")]))
        .collect();
    for rows in [&rows, &many] {
        let data = raw_blocks(rows, BlockType::Data);
        fuzz_with(fuzz::block, Some(0), &data, 4000);
        fuzz_with(fuzz::index, Some(0), &raw_blocks(rows, BlockType::Index), 3000);
        fuzz_with(fuzz::index, Some(1), &raw_blocks(rows, BlockType::TopIndex), 3000);
        fuzz_with(fuzz::index, Some(2), &raw_blocks(rows, BlockType::RangeTombstones), 1000);
        fuzz_with(fuzz::filter, None, &raw_blocks(rows, BlockType::Filter), 1000);
        fuzz_with(fuzz::footer, None, &raw_blocks(rows, BlockType::Properties), 3000);
        let compressed: Vec<Vec<u8>> = data
            .iter()
            .map(|raw| {
                let mut stored = (raw.len() as u32).to_le_bytes().to_vec();
                stored.extend(lz4::block::compress(raw, None, false).unwrap());
                stored
            })
            .collect();
        fuzz_with(fuzz::block, Some(2), &compressed, 2000);
        fuzz_with(fuzz::block, Some(3), &compressed, 500);
    }
    let (_, _, bytes) = example();
    fuzz_with(fuzz::footer, None, &[bytes], 1000);
    fuzz_with(fuzz::block, None, &[Vec::new(), vec![0; 100], vec![0xff; 1000]], 1000);
}
