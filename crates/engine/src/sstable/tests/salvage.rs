//! What is read of a damaged file: nothing that was not in it, and all that is not in the rows that
//! are said to be lost, whatever byte is flipped and wherever the file is cut.

use super::imitations::file_with_value;
use super::*;
use crate::cell::TreeId;
use crate::manifest::SstMeta;
use crate::sstable::format::Footer;
use crate::sstable::salvage::{Known, LostRows, Piece, SstSalvage};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows over several blocks and partitions, one of them over several blocks; large values; ranges.
fn example(filter_bits_per_key: u8) -> (Rows, Vec<RangeTombstone>, Vec<u8>, SstMeta) {
    let mut rows: Rows = Vec::new();
    for row in 0..600u32 {
        let value = [row as u8; 40];
        let mut entries = vec![put(1, b"q", 5, 9, &value)];
        if row % 97 == 0 {
            entries.push(put(2, b"large", 5, 9, &[b'x'; 300]));
        }
        rows.push((format!("row{row:04}").into_bytes(), entries));
    }
    let wide = (0..200u8).map(|column| put(3, &[b'c', column], 1, 8, &[column; 30])).collect();
    rows.push((b"wide".to_vec(), wide));
    rows.push((b"x".to_vec(), vec![put(1, b"q", 5, 9, b"last")]));
    let (start, end) = (b"row01".to_vec(), Some(b"row02".to_vec()));
    let dropped = vec![RangeTombstone { start, end, sequence: SequenceNumber(4) }];
    let options = SstOptions {
        block_bytes: 1 << 10,
        large_value_bytes: 256,
        filter_bits_per_key,
        ..options()
    };
    let (bytes, meta) = build(&rows, &dropped, &options);
    (rows, dropped, bytes, meta)
}

pub(super) type Salvaged = (Rows, Vec<LostRows>, Option<Vec<RangeTombstone>>);

/// What is read of a damaged file, with or without its entry in a manifest.
pub(super) fn salvage(bytes: Vec<u8>, meta: Option<&SstMeta>) -> Result<Salvaged> {
    let file = Arc::new(MemoryFile(Arc::new(Mutex::new(bytes))));
    let mut salvage = SstSalvage::open(file, Path::new("7.sst"), FileNumber(7))?;
    let (mut rows, mut lost) = (Rows::new(), Vec::new());
    let known = meta.map(|meta| Known {
        tree: TreeId(1),
        entries: meta.entries,
        first_row: meta.first_row.clone(),
        last_row: meta.last_row.clone(),
        range_tombstones: meta.range_tombstones,
        span: meta.span(),
        sequence_min: meta.sequence_min,
        sequence_max: meta.sequence_max,
    });
    salvage.read(known.as_ref(), &mut |piece| {
        match piece {
            Piece::Lost(found) => lost.push(found),
            Piece::Entry(row, entry) => match rows.last_mut() {
                Some((last, entries)) if last == row => entries.push(OwnedEntry::copy_of(&entry)),
                _ => rows.push((row.to_vec(), vec![OwnedEntry::copy_of(&entry)])),
            },
        }
        Ok(())
    })?;
    let ranges = salvage.range_tombstones().map(<[RangeTombstone]>::to_vec);
    Ok((rows, lost, ranges))
}

/// Holds what was salvaged against the rows; gives how many of them are said to be lost.
fn compare(rows: &Rows, salvaged: &Salvaged, case: &str) -> usize {
    let (found, lost, _) = salvaged;
    let is_lost = |row: &[u8]| lost.iter().any(|lost| lost.rows.contains(row));
    for (row, entries) in rows.iter().filter(|(row, _)| !is_lost(row)) {
        let same = found.iter().find(|(other, _)| other == row);
        assert_eq!(same.map(|(_, e)| e), Some(entries), "{case}: row {}", row.escape_ascii());
    }
    for (row, entries) in found {
        let origin = rows.iter().find(|(other, _)| other == row);
        let origin = origin.unwrap_or_else(|| panic!("{case}: a row was invented"));
        assert!(entries.iter().all(|entry| origin.1.contains(entry)), "{case}: invented");
    }
    assert!(found.is_sorted_by(|a, b| a.0 < b.0), "{case}: out of order");
    rows.iter().filter(|(row, _)| is_lost(row)).count()
}

#[test]
fn a_whole_file_is_read_whole() {
    let (rows, dropped, bytes, meta) = example(10);
    for meta in [None, Some(&meta)] {
        assert_eq!(
            salvage(bytes.clone(), meta).unwrap(),
            (rows.clone(), vec![], Some(dropped.clone()))
        );
    }
}

#[test]
fn a_flipped_byte_costs_the_rows_of_one_block() {
    for filter_bits in [0, 10] {
        let (rows, dropped, bytes, meta) = example(filter_bits);
        for at in (0..bytes.len()).step_by(61).chain(bytes.len() - 200..bytes.len()) {
            for meta in [None, Some(&meta)] {
                let case = format!("{filter_bits} bits, byte {at}, known {}", meta.is_some());
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x20;
                let salvaged = salvage(damaged, meta).unwrap();
                let lost = compare(&rows, &salvaged, &case);
                assert!(lost <= 40, "{case}: {lost} rows, {:?}", salvaged.1);
                let ranges = salvaged.2.as_ref();
                assert!(ranges.is_none_or(|ranges| *ranges == dropped), "{case}");
            }
        }
    }
}

#[test]
fn a_file_that_was_cut_or_zeroed_costs_what_is_behind() {
    let (rows, _, bytes, meta) = example(10);
    for at in (0..bytes.len()).step_by(601) {
        for meta in [None, Some(&meta)] {
            let case = format!("at {at}, known {}", meta.is_some());
            compare(&rows, &salvage(bytes[..at].to_vec(), meta).unwrap(), &case);
            let mut zeroed = bytes.clone();
            zeroed[at..].fill(0);
            compare(&rows, &salvage(zeroed, meta).unwrap(), &case);
            let mut hole = bytes.clone();
            let end = bytes.len().min(at + 5000);
            hole[at..end].fill(0);
            compare(&rows, &salvage(hole, meta).unwrap(), &case);
        }
    }
}

/// The walk for partitions that follow each other reads all of them.
#[test]
fn damaged_index_partitions_cost_nothing_while_the_blocks_are_whole() {
    let row = |row: u32| (format!("row{row:05}").into_bytes(), vec![put(1, b"q", 5, 9, &[7; 900])]);
    let rows: Rows = (0..1100).map(row).collect();
    for version in [1, 2] {
        let with = |builder: SstBuilder| match version {
            1 => builder.of_version_1(),
            _ => builder,
        };
        let (bytes, _) = build_by(&rows, &[], &options(), with);
        let sst = open(bytes.clone()).unwrap();
        let indexes: Vec<_> = sst.top.partitions().iter().map(|part| part.index.offset).collect();
        assert!(indexes.len() > 3, "the test wants partitions");
        for damaged in [0..2, 1..3, 1..indexes.len(), 0..indexes.len()] {
            let mut bytes = bytes.clone();
            indexes[damaged.clone()].iter().for_each(|at| bytes[*at as usize] ^= 1);
            let (found, lost, _) = salvage(bytes, None).unwrap();
            assert_eq!((found == rows, lost), (true, vec![]), "version {version}, {damaged:?}");
        }
    }
}

/// A block is there if all of its bytes are, however little of the file follows.
#[test]
fn a_whole_block_at_the_end_of_a_cut_file_is_read() {
    let (rows, _, bytes, meta) = example(10);
    let sst = open(bytes.clone()).unwrap();
    for partition in 0..sst.top.partitions().len() {
        let index = sst.index(partition, CacheFill::Bypass).unwrap();
        for block in 0..index.view().blocks() {
            let data = sst.data(&index, block, CacheFill::Bypass).unwrap();
            let mut last = Vec::new();
            data.view().copy_row(data.view().rows() - 1, &mut last);
            let whole = |row: &Vec<u8>| match data.view().continues() {
                true => *row < last,
                false => *row <= last,
            };
            let until = rows.partition_point(|(row, _)| whole(row));
            let end = index.view().handle(block).end().unwrap() as usize;
            for cut in [0, 1, 5, 6, 7, 63, 64, 65].map(|more| end + more) {
                for meta in [None, Some(&meta)] {
                    let salvaged = salvage(bytes[..cut].to_vec(), meta).unwrap();
                    let case = format!("block {block} ends at {end}, cut at {cut}");
                    compare(&rows, &salvaged, &case);
                    assert!(salvaged.0.starts_with(&rows[..until]), "{case}: a block is missing");
                    let told = until == rows.len() || !salvaged.1.is_empty();
                    assert!(told, "{case}: nothing is said to be lost");
                }
            }
        }
    }
}

#[test]
fn a_file_shorter_than_a_footer_gives_what_it_has() {
    let dropped = example(10).1;
    for version in [1, 2] {
        let with = |builder: SstBuilder| match version {
            1 => builder.of_version_1(),
            _ => builder,
        };
        let (bytes, _) = build_by(&Rows::new(), &dropped, &options(), with);
        let footer = Footer::decode(bytes.last_chunk().unwrap()).unwrap();
        let end = footer.range_tombstones.unwrap().end().unwrap() as usize;
        assert!(version > 1 || end < 64, "the test wants a short block, this has {end} bytes");
        for cut in 0..bytes.len() {
            let (rows, _, ranges) = salvage(bytes[..cut].to_vec(), None).unwrap();
            assert_eq!(rows, Rows::new());
            // Behind the block it is known what there was, though not that it was all. In version 1
            // the block may be part of a value until the properties say that there is none.
            let end = if version == 1 { footer.properties.end().unwrap() as usize } else { end };
            let want = (cut >= end).then(|| dropped.clone());
            assert_eq!(ranges, want, "version {version}, cut at {cut}");
        }
    }
}

/// Either of header and footer is enough; without both, the properties have the identity.
#[test]
fn a_file_without_its_header_and_its_footer_loses_nothing() {
    let (rows, bytes, meta, _) = file_with_value(&[0; 5000], 2);
    let (header, footer) = (0..40, bytes.len() - 64..bytes.len());
    for damaged in [vec![header.clone()], vec![footer.clone()], vec![header, footer]] {
        let mut bytes = bytes.clone();
        for part in &damaged {
            bytes[part.clone()].fill(0xee);
        }
        for meta in [None, Some(&meta)] {
            let (found, lost, _) = salvage(bytes.clone(), meta).unwrap();
            assert_eq!((found == rows, lost), (true, vec![]), "{damaged:?}");
        }
        let verdict = open(bytes).and_then(|sst| sst.verify());
        assert!(matches!(verdict, Err(Error::Corruption(_))), "{damaged:?}: {verdict:?}");
    }
}

#[test]
fn an_ingested_file_keeps_its_number_when_its_footer_is_lost() {
    let rows: Rows = vec![(b"a".to_vec(), vec![put(1, b"q", 5, 0, b"v")])];
    let file = MemoryFile::default();
    let path = Path::new("7.sst");
    let mut builder = SstBuilder::for_ingest(Box::new(file.clone()), path, options());
    builder.add(b"a", &rows[0].1[0].borrow()).unwrap();
    let mut meta = builder.finish(FileNumber(7)).unwrap();
    let bytes = file.0.lock().clone();
    (meta.sequence_min, meta.sequence_max) = (SequenceNumber(44), SequenceNumber(44));
    for at in [60, bytes.len() - 10] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let (found, lost, _) = salvage(damaged, Some(&meta)).unwrap();
        let numbers: Vec<u64> =
            found.iter().flat_map(|(_, entries)| entries).map(|entry| entry.sequence.0).collect();
        assert_eq!((numbers.len(), lost.len()), if at == 60 { (0, 1) } else { (1, 0) });
        assert!(numbers.iter().all(|number| *number == 44), "{numbers:?}");
    }
}

/// A file that counts how often it is read at each of some places.
struct Counted(MemoryFile, Vec<u64>, AtomicUsize);

impl ReadFile for Counted {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.2.fetch_add(usize::from(self.1.contains(&offset)), Ordering::Relaxed);
        self.0.read_exact_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        ReadFile::size(&self.0)
    }
}

/// Each lost partition does not look through all those behind it.
#[test]
fn index_partitions_that_are_all_lost_are_read_twice_at_most() {
    let row = |row: u32| (format!("row{row:05}").into_bytes(), vec![put(1, b"q", 5, 9, &[7; 900])]);
    let rows: Rows = (0..1600).map(row).collect();
    let (mut bytes, _) = build(&rows, &[], &options());
    let sst = open(bytes.clone()).unwrap();
    let indexes: Vec<_> = sst.top.partitions().iter().map(|part| part.index.offset).collect();
    assert!(indexes.len() > 4, "the test wants more than {} partitions", indexes.len());
    indexes.iter().for_each(|at| bytes[*at as usize] ^= 1);
    let file = MemoryFile(Arc::new(Mutex::new(bytes)));
    let file = Arc::new(Counted(file, indexes.clone(), AtomicUsize::new(0)));
    let read: Arc<dyn ReadFile> = Arc::clone(&file) as _;
    let mut salvage = SstSalvage::open(read, Path::new("7.sst"), FileNumber(7)).unwrap();
    let mut entries = 0;
    let mut count = |piece: Piece<'_>| {
        entries += usize::from(matches!(piece, Piece::Entry(..)));
        Ok(())
    };
    salvage.read(None, &mut count).unwrap();
    assert_eq!(entries, rows.len());
    let reads = file.2.load(Ordering::Relaxed);
    assert!(reads <= 2 * indexes.len(), "{reads} reads of {} partitions", indexes.len());
}
