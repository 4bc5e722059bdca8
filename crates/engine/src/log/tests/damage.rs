//! Damaged files: each is read as it was, or refused with the file and a place in it. The one
//! exception is the unsynced end of a log that was not closed cleanly.

use super::*;
use crate::error::Corruption;
use crate::log::framing::record;
use crate::log::tree_batches::{self, TreeBatch};
use base::env::Rng;
use base::env::sim::SimFs;
use std::path::PathBuf;

const SEGMENT: u64 = 500;

fn dir() -> &'static Path {
    Path::new("")
}

/// How the log under test came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Died,
}

/// A log of several segments, the last of them recycled, and what it holds.
fn log(end: End) -> (SimFs, Vec<Batch>) {
    let fs = SimFs::new(1);
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let mut writer = LogWriter::create(shared, dir(), SEGMENT).unwrap();
    let mut all: Vec<Batch> = Vec::new();
    for first in 1..=14 {
        let group = [batch(1, first * 10, 60), batch(2, first * 10 + 5, 3)];
        writer.append(&records(&group)).unwrap();
        writer.sync().unwrap();
        all.extend(group);
        if first == 8 {
            let flushed = all[7].first;
            let first = writer.segments().first_needed(|_| Some(LogPosition(flushed)));
            writer.segments().retire(first.unwrap()).unwrap();
        }
    }
    if end == End::Closed {
        writer.close().unwrap();
    }
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let (seen, _) = read(&shared, dir()).unwrap();
    assert!(seen.len() < all.len() && all.ends_with(&seen));
    assert!(writer.segments().numbers().len() >= 3);
    (fs, seen)
}

fn logs(fs: &SimFs) -> Vec<(PathBuf, usize)> {
    let files = fs.files().into_iter().filter(|(path, _)| path.extension() == Some("log".as_ref()));
    files.map(|(path, len)| (path, len as usize)).collect()
}

/// Reads the damaged log. `whole` is what it held, `least` how many batches of it must be there.
fn check(fs: &SimFs, whole: &[Batch], least: usize, damaged: (&Path, usize), case: &str) {
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    match read(&shared, dir()) {
        Ok((seen, _)) => {
            assert!(seen.len() >= least, "{case}: {} of {} are left", seen.len(), whole.len());
            assert_eq!(seen, whole[..seen.len()], "{case}");
        }
        Err(Error::Corruption(Corruption { file, offset, .. })) => {
            assert_eq!(file, damaged.0, "{case}");
            assert!(offset as usize <= damaged.1, "{case}: reported at {offset}");
        }
        Err(error) => panic!("{case}: {error}"),
    }
}

#[test]
fn every_flipped_byte_is_harmless_or_corruption() {
    for (end, lost) in [(End::Closed, 0), (End::Died, 2)] {
        let (fs, whole) = log(end);
        for (path, len) in logs(&fs) {
            let intact = fs.read(&path).unwrap();
            for at in 0..len {
                for mask in [0x01, 0x80, 0xff] {
                    fs.flip(&path, at, mask).unwrap();
                    let case = format!("{end:?}: {} byte {at} mask {mask}", path.display());
                    check(&fs, &whole, whole.len() - lost, (&path, at), &case);
                    fs.overwrite(&path, &intact).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_cut_segment_is_corruption_and_a_cut_log_ends_there() {
    for end in [End::Closed, End::Died] {
        let (fs, whole) = log(end);
        let files = logs(&fs);
        for (index, (path, len)) in files.iter().enumerate() {
            let intact = fs.read(path).unwrap();
            let least = if index + 1 < files.len() { whole.len() } else { 0 };
            for at in 0..*len {
                fs.overwrite(path, &intact[..at]).unwrap();
                let case = format!("{end:?}: {} cut at {at}", path.display());
                check(&fs, &whole, least, (path, at), &case);
            }
            fs.overwrite(path, &intact).unwrap();
        }
    }
}

#[test]
fn a_missing_segment_is_corruption() {
    let (fs, _) = log(End::Closed);
    let files = logs(&fs);
    let (missing, _) = &files[1];
    fs.remove_file(missing).unwrap();
    let shared: Arc<dyn FileSystem> = Arc::new(fs);
    let Err(Error::Corruption(Corruption { file, .. })) = read(&shared, dir()) else {
        panic!("it was read")
    };
    assert_eq!(&file, missing);
}

#[test]
fn damage_before_a_synced_record_is_told_from_a_torn_tail() {
    let (fs, whole) = log(End::Died);
    let (path, _) = logs(&fs).pop().unwrap();
    let mut reader = open_alone(&fs, &path).unwrap();
    let mut starts = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        starts.push(item.offset as usize);
    }
    let last_group = starts[starts.len() - 2];
    let intact = fs.read(&path).unwrap();
    for start in starts {
        fs.flip(&path, start + 2, 1).unwrap();
        let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
        match read(&shared, dir()) {
            Err(Error::Corruption(Corruption { offset, .. })) => {
                assert!(start < last_group);
                assert_eq!(offset as usize, start);
            }
            Ok((seen, _)) => assert!(start >= last_group && seen.len() < whole.len()),
            Err(error) => panic!("{error}"),
        }
        fs.overwrite(&path, &intact).unwrap();
    }
}

#[test]
fn a_segment_that_was_only_begun_is_no_part_of_the_log() {
    let (fs, whole) = log(End::Closed);
    let next = writer_number(&fs) + 1;
    let path = SegmentNumber(next).path(dir());
    let stale = fs.read(&logs(&fs)[0].0).unwrap();
    for (case, content) in [
        ("empty", vec![]),
        ("zeros", vec![0; 500]),
        ("half a header", vec![b'S'; 16]),
        ("recycled, header not yet written", stale),
    ] {
        fs.create(&path).unwrap();
        fs.overwrite(&path, &content).unwrap();
        let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
        let (seen, end) = read(&shared, dir()).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(seen, whole, "{case}");
        let mut writer = LogWriter::open(shared, dir(), SEGMENT, end).unwrap();
        let one = [batch(1, 1000, 5)];
        writer.append(&records(&one)).unwrap();
        let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
        assert_eq!(read(&shared, dir()).unwrap().0, [&whole[..], &one].concat(), "{case}");
        fs.remove_file(&path).unwrap();
    }
}

#[test]
fn the_name_of_the_next_segment_proves_that_one_was_sealed() {
    let (fs, _) = log(End::Closed);
    let last = logs(&fs).pop().unwrap();
    fs.create(&SegmentNumber(writer_number(&fs) + 1).path(dir())).unwrap();
    fs.flip(&last.0, last.1 - 1, 1).unwrap();
    let shared: Arc<dyn FileSystem> = Arc::new(fs);
    let Err(Error::Corruption(Corruption { file, .. })) = read(&shared, dir()) else {
        panic!("it was read")
    };
    assert_eq!(file, last.0);
}

#[test]
fn fuzz_bodies_stand_mutated_segments() {
    let mut rng = Rng::new(1);
    let mut batch = WriteBatch::new();
    batch.put(b"row", Column::of(FamilyId(1), b"q"), Timestamp(5), b"value");
    batch.delete_row(b"row");
    batch.drop_row_range(b"a", Some(b"b"));
    let encoded = batch.encode();
    let seeds = log_record_seeds();
    for _ in 0..4000 {
        let seed = &seeds[rng.index(seeds.len())];
        fuzz::log_record(&mutate(&mut rng, seed));
        crate::batch::fuzz(&mutate(&mut rng, &encoded));
    }
}

fn mutate(rng: &mut Rng, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..rng.index(4) {
        let at = rng.index(bytes.len() + 1);
        match rng.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.next_u64() as u8),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << rng.below(8);
                }
            }
        }
    }
    bytes
}

fn writer_number(fs: &SimFs) -> u64 {
    let (path, _) = logs(fs).pop().unwrap();
    open_alone(fs, &path).unwrap().segment().0
}

/// A good record of each kind, to begin with.
fn log_record_seeds() -> Vec<Vec<u8>> {
    let payload = b"\x00\x00\x00\x00".as_slice();
    let (tree, first) = (TreeId(7), SequenceNumber(10));
    let record = LogRecord::new(tree, first, 1000, payload);
    let header = record::encode_file_header(&record::LOG, record::LOG.version, 1);
    let batch = |tree, before| TreeBatch { tree: TreeId(tree), before, batch: payload };
    let together = tree_batches::encode(&[batch(7, 0), batch(9, 2)]);
    let together = LogRecord {
        kind: RecordKind::Batches,
        ..LogRecord::new(TreeId(0), SequenceNumber(20), 1001, &together)
    };
    let kinds = [RecordKind::Seal, RecordKind::Close];
    let content = kinds.map(|kind| {
        let mut out = header.clone();
        for record in [&record, &record, &together] {
            let (at, synced) = (out.len() as u64, 32);
            record::encode_record(&mut out, 1, at, synced, record);
        }
        let at = out.len() as u64;
        record::encode_mark(&mut out, 1, at, at, kind);
        out
    });
    let whole = content.iter().map(|content| [&[0], &content[..]].concat());
    let single = content.iter().map(|content| [&[2], &content[32..]].concat());
    whole.chain(single).collect()
}
