//! Tests of the log as a whole.

mod crash;
mod damage;
mod segments;

use super::*;
use crate::WriteBatch;
use crate::cell::{Column, FamilyId, SequenceNumber, Timestamp, TreeId};
use crate::error::Error;
use base::env::RealFileSystem;
use base::env::fs::FileSystem;
use base::env::sim::SimFs;
use std::path::Path;
use std::sync::Arc;

const SEGMENT: u64 = 4096;

/// A batch of one tree that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Batch {
    tree: u32,
    first: u64,
    payload: Vec<u8>,
}

fn batch(tree: u32, first: u64, len: usize) -> Batch {
    let payload = (0..len).map(|at| (first as usize * 31 + at) as u8).collect();
    Batch { tree, first, payload }
}

fn records(batches: &[Batch]) -> Vec<LogRecord<'_>> {
    let record = |batch| {
        let Batch { tree, first, payload }: &Batch = batch;
        let (tree, first) = (TreeId(*tree), SequenceNumber(*first));
        LogRecord::new(tree, first, 1000, payload)
    };
    batches.iter().map(record).collect()
}

fn read(fs: &Arc<dyn FileSystem>, dir: &Path) -> crate::Result<(Vec<Batch>, LogEnd)> {
    let mut reader = LogReader::open(Arc::clone(fs), dir)?;
    let mut batches = Vec::new();
    while let Some(LogItem { record, .. }) = reader.next()? {
        let (tree, first) = (record.tree.0, record.first.0);
        batches.push(Batch { tree, first, payload: record.payload.to_vec() });
    }
    Ok((batches, reader.finish()?))
}

fn open(fs: &Arc<dyn FileSystem>, dir: &Path) -> crate::Result<(Vec<Batch>, LogWriter)> {
    let (batches, end) = read(fs, dir)?;
    Ok((batches, LogWriter::open(Arc::clone(fs), dir, SEGMENT, end)?))
}

fn real() -> (Arc<dyn FileSystem>, tempfile::TempDir) {
    (Arc::new(RealFileSystem), tempfile::tempdir().unwrap())
}

#[test]
fn batches_come_back_in_order_over_many_segments_and_restarts() {
    let (fs, dir) = real();
    let mut all = Vec::new();
    for round in 0..6u64 {
        let (seen, mut writer) = open(&fs, dir.path()).unwrap();
        assert_eq!(seen, all);
        for index in 0..10 {
            let first = 1 + round * 100 + index * 10;
            let group = [batch(1, first, 300), batch(2, first + 5, 11 * round as usize)];
            writer.append(&records(&group)).unwrap();
            writer.sync().unwrap();
            all.extend(group);
        }
        if round % 2 == 0 {
            writer.close().unwrap();
            assert!(matches!(writer.append(&[]), Err(Error::Closed)));
        }
    }
    let (seen, end) = read(&fs, dir.path()).unwrap();
    assert_eq!(seen, all);
    assert!(!end.was_closed());
    assert!(end.contents.len() > 6);
}

#[test]
fn a_group_larger_than_a_segment_gets_one_of_its_size() {
    let (fs, dir) = real();
    let (_, mut writer) = open(&fs, dir.path()).unwrap();
    let all = [batch(1, 1, 10), batch(1, 2, 3 * SEGMENT as usize), batch(1, 3, 10)];
    for one in &all {
        writer.append(&records(std::slice::from_ref(one))).unwrap();
    }
    writer.close().unwrap();
    assert_eq!(read(&fs, dir.path()).unwrap().0, all);
    assert_eq!(writer.segments().numbers().len(), 3);
}

#[test]
fn segments_are_retired_when_every_tree_in_them_is_flushed() {
    let (fs, dir) = real();
    let (_, mut writer) = open(&fs, dir.path()).unwrap();
    for first in 1..=40 {
        writer.append(&records(&[batch(1 + (first % 2) as u32, first, 900)])).unwrap();
    }
    let segments = Arc::clone(writer.segments());
    let count = segments.numbers().len();
    assert!(count >= 10);
    let flushed = |one, two| {
        move |tree: TreeId| match tree.0 {
            1 => Some(LogPosition(one)),
            _ => two,
        }
    };
    let retire = |flushed| {
        let first = segments.first_needed(flushed).unwrap();
        segments.retire(first).unwrap()
    };
    assert_eq!(retire(flushed(0, Some(LogPosition(40)))), 0);
    let to_flush = |most, flushed| segments.tree_to_flush(most, flushed);
    assert_eq!(to_flush(count, flushed(0, None)), None);
    assert_eq!(to_flush(count - 1, flushed(0, Some(LogPosition(40)))), Some(TreeId(1)));
    assert_eq!(to_flush(count - 1, flushed(20, Some(LogPosition(40)))), None, "half is needed");
    assert_eq!(to_flush(1, flushed(20, Some(LogPosition(40)))), Some(TreeId(1)));
    let some = retire(flushed(20, Some(LogPosition(40))));
    assert!(some > 0 && some < count - 1);
    retire(flushed(40, None));
    assert_eq!(segments.numbers().len(), 1, "the newest stays");
    let names = fs.list(dir.path()).unwrap();
    assert_eq!(names.len(), 3, "one segment and two spares: {names:?}");
    let (seen, _) = open(&fs, dir.path()).unwrap();
    assert!(seen.iter().all(|b| b.first > 36));
}

#[test]
fn no_segment_that_a_rotation_leaves_is_written_again() {
    let sim = SimFs::new(1);
    let (fs, dir): (Arc<dyn FileSystem>, _) = (Arc::new(sim.clone()), Path::new("/"));
    let (_, mut writer) = open(&fs, dir).unwrap();
    // There is space for a segment, and not for a batch that is larger: its header stays behind.
    sim.set_capacity(2 * SEGMENT);
    let large = [batch(1, 1, 4 * SEGMENT as usize)];
    assert!(matches!(writer.append(&records(&large)), Err(Error::NoSpace { .. })));
    sim.set_capacity(u64::MAX);
    writer.rotate().unwrap();
    let segments = writer.segments().numbers();
    let bytes = || segments.iter().map(|segment| sim.read(&segment.path(dir)).unwrap());
    let (before, one) = (bytes().collect::<Vec<_>>(), [batch(1, 1, 100)]);
    assert_eq!(before.len(), 1);
    writer.append(&records(&one)).unwrap();
    writer.sync().unwrap();
    assert!(bytes().eq(before), "what a checkpoint copies");
    writer.close().unwrap();
    assert_eq!(read(&fs, dir).unwrap().0, one);
}

#[test]
fn segments_that_are_read_stay_and_nobody_waits() {
    let (fs, dir) = real();
    let (_, mut writer) = open(&fs, dir.path()).unwrap();
    for first in 1..=10 {
        writer.append(&records(&[batch(1, first, 3000)])).unwrap();
    }
    let segments = Arc::clone(writer.segments());
    let all = segments.numbers();
    let (first, last) = (segments.pin(), *all.last().unwrap());
    let second = segments.pin();
    assert_eq!(segments.retire(last).unwrap(), 0);
    drop(first);
    assert_eq!((segments.retire(last).unwrap(), segments.numbers()), (0, all.clone()));
    assert!(all.iter().all(|segment| fs.exists(&segment.path(dir.path())).unwrap()));
    drop(second);
    assert_eq!(segments.retire(last).unwrap(), all.len() - 1);
}

#[test]
fn what_was_written_of_a_segment_reads_as_the_whole_of_it() {
    let (fs, dir) = real();
    let (_, mut writer) = open(&fs, dir.path()).unwrap();
    for first in 1..=6 {
        // Payloads that end in zeros, as room does.
        writer.append(&records(&[batch(1, first, 900)])).unwrap();
        writer
            .append(&[LogRecord::new(TreeId(1), SequenceNumber(10 * first), 1, &[0; 100])])
            .unwrap();
    }
    writer.sync().unwrap();
    let numbers = writer.segments().numbers();
    assert!(numbers.len() > 1);
    let cut_all = |whole: &[bool]| {
        let (before, end) = read(&fs, dir.path()).unwrap();
        for (segment, whole) in numbers.iter().zip(whole) {
            let path = segment.path(dir.path());
            let (len, written) = (fs.size(&path).unwrap(), written_len(&*fs, &path).unwrap());
            assert_eq!(written == len, *whole, "{written} of {len} bytes of {segment:?}");
            fs.open_write(&path).unwrap().set_len(written).unwrap();
            assert_eq!(written_len(&*fs, &path).unwrap(), written);
        }
        let (after, end_after) = read(&fs, dir.path()).unwrap();
        assert_eq!(
            (after, format!("{:?}", end_after.chain.last)),
            (before, format!("{:?}", end.chain.last))
        );
    };
    // The last one as a killed process leaves it, then with a torn tail, then sealed.
    cut_all(&vec![false; numbers.len()]);
    let last = numbers.last().unwrap().path(dir.path());
    let end = fs.size(&last).unwrap();
    fs.open_write(&last).unwrap().write_all_at(&[0, 7, 0], end).unwrap();
    cut_all(&vec![true; numbers.len()]);
    fs.open_write(&last).unwrap().set_len(end).unwrap();
    writer.rotate().unwrap();
    fs.open_write(&last).unwrap().set_len(end + 4096).unwrap();
    assert!(written_len(&*fs, &last).unwrap() < end + 4096);
    // Where a record does not read all is kept, for whoever can make something of it.
    fs.open_write(&last).unwrap().write_all_at(&[0xff; 4], 40).unwrap();
    assert_eq!(written_len(&*fs, &last).unwrap(), end + 4096);
}

#[test]
fn the_bytes_of_version_one() {
    let (fs, dir) = real();
    let (_, mut writer) = open(&fs, dir.path()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"r", Column::of(FamilyId(1), b"q"), Timestamp(5), b"v");
    let mut payload = Vec::new();
    payload.extend(batch.encode());
    let (tree, first) = (TreeId(7), SequenceNumber(10));
    writer.append(&[LogRecord::new(tree, first, 1000, &payload)]).unwrap();
    writer.close().unwrap();
    let bytes = std::fs::read(dir.path().join("0000000001.log")).unwrap();
    let page = include_str!("../../../../../docs/format/commit_log.md");
    let example = page.split("```text\n").nth(1).and_then(|rest| rest.split("\n```").next());
    assert_eq!(hex(&bytes), example.unwrap(), "the example of the format page");
}

fn hex(bytes: &[u8]) -> String {
    let line = |(index, line): (usize, &[u8])| {
        let bytes: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}", index * 16, bytes.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect::<Vec<_>>().join("\n")
}
