//! Tests of the manifest as a whole.

mod crash;
mod damage;

use super::*;
use crate::cell::{SequenceNumber, Timestamp, TreeId};
use crate::error::Error;
use crate::log::SegmentNumber;
use crate::options::TreeOptions;
use crate::request::RowRange;
use crate::shape::Shape;
use base::env::RealFileSystem;
use base::env::fs::FileSystem;
use base::env::sim::SimFs;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

fn meta(number: u64, rows: (&str, &str), sequences: (u64, u64)) -> SstMeta {
    SstMeta {
        number: FileNumber(number),
        bytes: 1000,
        first_row: rows.0.into(),
        last_row: rows.1.into(),
        entries: 10,
        tombstones: 1,
        range_tombstones: 0,
        dropped: None,
        sequence_min: SequenceNumber(sequences.0),
        sequence_max: SequenceNumber(sequences.1),
        timestamp_min: Timestamp(-5),
        timestamp_max: Timestamp(5),
    }
}

fn add(tree: u32, level: usize, run: u64, meta: SstMeta) -> Edit {
    Edit::AddSst { tree: TreeId(tree), level, run: RunId(run), meta }
}

fn remove(tree: u32, level: usize, run: u64, number: u64) -> Edit {
    let number = FileNumber(number);
    Edit::RemoveSst { tree: TreeId(tree), level, run: RunId(run), number }
}

fn create(tree: u32) -> Edit {
    Edit::CreateTree { tree: TreeId(tree), options: TreeOptions::default() }
}

fn real() -> (Arc<dyn FileSystem>, tempfile::TempDir) {
    (Arc::new(RealFileSystem), tempfile::tempdir().unwrap())
}

fn open(fs: &Arc<dyn FileSystem>, dir: &Path) -> crate::Result<ManifestSet> {
    ManifestSet::open_shaped(Arc::clone(fs), dir, &rolling_at(1 << 10))
}

/// A shape that begins a new manifest at `bytes` bytes.
fn rolling_at(bytes: usize) -> Shape {
    Shape { manifest_roll_bytes: bytes, ..Shape::DEFAULT }
}

fn sim(fs: &SimFs) -> Arc<dyn FileSystem> {
    Arc::new(fs.clone())
}

/// Of a file, a run, a segment or a batch.
fn number() -> impl Strategy<Value = u64> {
    any::<u64>().prop_map(|number| number >> 8)
}

fn any_meta() -> impl Strategy<Value = SstMeta> {
    let rows = (any::<Vec<u8>>(), any::<Vec<u8>>(), any::<Option<(Vec<u8>, Option<Vec<u8>>)>>());
    let counts = (any::<[u64; 5]>(), [number(), number()], any::<[i64; 2]>());
    (rows, counts).prop_map(|((first_row, last_row, dropped), (n, sequences, times))| SstMeta {
        number: FileNumber(n[0] >> 8),
        bytes: n[1] >> 16,
        first_row,
        last_row,
        entries: n[2] >> 16,
        tombstones: n[3] >> 16,
        range_tombstones: n[4] >> 16,
        dropped: dropped.map(|(start, end)| RowRange { start, end }),
        sequence_min: SequenceNumber(sequences[0]),
        sequence_max: SequenceNumber(sequences[1]),
        timestamp_min: Timestamp(times[0]),
        timestamp_max: Timestamp(times[1]),
    })
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let tree = || any::<u32>().prop_map(TreeId);
    let place = || (tree(), 0usize..=255, number().prop_map(RunId));
    prop_oneof![
        (tree(), any::<u16>(), any::<bool>()).prop_map(|(tree, row_prefix_bytes, index)| {
            let prefix_index = index && row_prefix_bytes > 0;
            let options = TreeOptions { row_prefix_bytes, prefix_index, ..TreeOptions::default() };
            Edit::CreateTree { tree, options }
        }),
        tree().prop_map(|tree| Edit::DropTree { tree }),
        tree().prop_map(|tree| Edit::UsedTree { tree }),
        (place(), any_meta()).prop_map(|((tree, level, run), meta)| Edit::AddSst {
            tree,
            level,
            run,
            meta
        }),
        (place(), number()).prop_map(|((tree, level, run), number)| Edit::RemoveSst {
            tree,
            level,
            run,
            number: FileNumber(number)
        }),
        (tree(), number()).prop_map(|(tree, at)| Edit::Flushed { tree, position: LogPosition(at) }),
        number().prop_map(|number| Edit::NextFile(FileNumber(number))),
        number().prop_map(|sequence| Edit::LastSequence(SequenceNumber(sequence))),
        number().prop_map(|segment| Edit::LogFrom(SegmentNumber(segment))),
        (number(), any::<u64>()).prop_map(|(segment, end)| {
            Edit::LogClosed(LogClosed { segment: SegmentNumber(segment), end })
        }),
        any::<u128>().prop_map(|id| Edit::Store(StoreId(id))),
        (any::<u128>(), any::<u64>()).prop_map(|(cluster, node)| {
            Edit::Member(Member { cluster: ClusterId(cluster), node: NodeId(node) })
        }),
        prop_oneof![Just(Owner::Embedder), Just(Owner::Server)].prop_map(Edit::Owner),
        (0..crate::log::COMMIT_TIME_END).prop_map(Edit::CommitTime),
        (0..crate::log::COMMIT_TIME_END).prop_map(Edit::Clock),
        (tree(), number(), 0..crate::log::COMMIT_TIME_END, 0..1000u64).prop_map(
            |(tree, since, since_micros, retention_micros)| {
                let since = SequenceNumber(since);
                let log = ChangeLog { since, since_micros, retention_micros };
                Edit::KeepChanges { tree, log: (retention_micros > 0).then_some(log) }
            }
        ),
    ]
}

/// Numbers from which the next one would wrap around, or not fit: of whatever is counted on.
#[test]
fn numbers_that_cannot_be_counted_on_are_refused() {
    let tree = TreeId(1);
    let meta = meta(1, ("a", "b"), (1, 1));
    for last in [u64::MAX, u64::MAX - 1, (1 << 56) + 1] {
        let sequence = SequenceNumber(last);
        let segment = SegmentNumber(last);
        let (level, run) = (0, RunId(last));
        let add = |meta: SstMeta| add(1, 0, 1, meta);
        for edit in [
            Edit::NextFile(FileNumber(last)),
            Edit::LastSequence(sequence),
            Edit::LogFrom(segment),
            Edit::LogClosed(LogClosed { segment, end: 0 }),
            Edit::Flushed { tree, position: LogPosition(last) },
            Edit::RemoveSst { tree, level, run, number: FileNumber(1) },
            Edit::AddSst { tree, level, run, meta: meta.clone() },
            add(SstMeta { number: FileNumber(last), ..meta.clone() }),
            add(SstMeta { sequence_max: sequence, ..meta.clone() }),
            add(SstMeta { bytes: last, ..meta.clone() }),
            add(SstMeta { entries: last, ..meta.clone() }),
            add(SstMeta { tombstones: last, ..meta.clone() }),
            add(SstMeta { range_tombstones: last, ..meta.clone() }),
        ] {
            let mut bytes = Vec::new();
            edit.encode_into(&mut bytes);
            let read = Edit::decode_all(&bytes);
            assert!(
                matches!(read, Err(crate::manifest::edit::EditError::Number(_, n)) if n == last),
                "{edit:?}: {read:?}"
            );
        }
    }
}

proptest! {
    #[test]
    fn encoded_edits_read_back(edits in proptest::collection::vec(any_edit(), 0..8)) {
        let mut bytes = Vec::new();
        edits.iter().for_each(|edit| edit.encode_into(&mut bytes));
        prop_assert_eq!(Edit::decode_all(&bytes).unwrap(), edits);
        if let Some(cut) = bytes.len().checked_sub(1) {
            let read = Edit::decode_all(&bytes[..cut]);
            prop_assert!(read.is_err());
        }
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes: Vec<u8>) {
        if let Ok(edits) = Edit::decode_all(&bytes) {
            let _ = State::default().apply(&edits);
        }
    }
}

#[test]
fn installed_edits_are_there_after_reopening() {
    let (fs, dir) = real();
    let set = open(&fs, dir.path()).unwrap();
    set.install(&[create(1), create(2)]).unwrap();
    assert_eq!(set.new_file().unwrap(), FileNumber(1));
    assert_eq!(set.new_file().unwrap(), FileNumber(2));
    set.install(&[add(1, 0, 1, meta(1, ("a", "m"), (1, 9)))]).unwrap();
    set.install(&[add(1, 0, 2, meta(2, ("b", "c"), (10, 19)))]).unwrap();
    let position = LogPosition(19);
    let flushed = Edit::Flushed { tree: TreeId(1), position };
    set.install(&[flushed, Edit::DropTree { tree: TreeId(2) }]).unwrap();
    let state = set.state();
    let runs: Vec<u64> = state.tree(TreeId(1)).unwrap().runs().map(|run| run.id.0).collect();
    assert_eq!(runs, [2, 1], "newest first");
    assert_eq!(state.last_sequence, SequenceNumber(19));
    assert_eq!(load(&*fs, dir.path()).unwrap().unwrap(), *state);
    set.close().unwrap();
    assert!(matches!(set.install(&[create(3)]), Err(Error::Closed)));
    let set = open(&fs, dir.path()).unwrap();
    assert_eq!(*set.state(), *state);
    assert_eq!(set.new_file().unwrap(), FileNumber(3));
    assert!(matches!(set.install(&[create(2)]), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_long_manifest_gives_way_to_a_new_one() {
    let (fs, dir) = real();
    let set = open(&fs, dir.path()).unwrap();
    set.install(&[create(1)]).unwrap();
    for number in 1..=60 {
        let new = add(1, 0, number, meta(set.new_file().unwrap().0, ("a", "z"), (number, number)));
        let old = (number > 1).then(|| remove(1, 0, number - 1, number - 1));
        set.install(&Vec::from_iter(old.into_iter().chain([new]))).unwrap();
    }
    let names = fs.list(dir.path()).unwrap();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[1].to_str().unwrap() > "MANIFEST-0000000003");
    let state = set.state();
    assert_eq!(*open(&fs, dir.path()).unwrap().state(), *state);
}

#[test]
fn a_snapshot_is_in_as_many_records_as_it_takes() {
    let (fs, dir) = real();
    let shape = Shape { manifest_record_bytes: 300, ..rolling_at(4000) };
    let open = || ManifestSet::open_shaped(Arc::clone(&fs), dir.path(), &shape).unwrap();
    let set = open();
    set.install(&[create(1), create(2)]).unwrap();
    for number in 1..=40 {
        set.install(&[add(
            1,
            0,
            number,
            meta(set.new_file().unwrap().0, ("a", "z"), (number, number)),
        )])
        .unwrap();
    }
    // More than a record takes, and together all the same: it begins another manifest.
    let before = fs.list(dir.path()).unwrap();
    let both: Vec<Edit> = (1..=10)
        .map(|run| {
            add(2, 0, run, meta(set.new_file().unwrap().0, ("a", "z"), (40 + run, 40 + run)))
        })
        .collect();
    set.install(&both).unwrap();
    let names = fs.list(dir.path()).unwrap();
    assert!(names != before && names.len() == 2, "{names:?}");
    set.install(&[Edit::DropTree { tree: TreeId(2) }]).unwrap();
    let state = set.state();
    let mut reader = EditReader::open(&*fs, &dir.path().join(&names[1])).unwrap();
    let mut parts = 0;
    while let Some((_, edits)) = reader.next().unwrap() {
        let mut bytes = Vec::new();
        edits.iter().for_each(|edit| edit.encode_into(&mut bytes));
        assert!(bytes.len() < 300 + 200, "{} bytes", bytes.len());
        parts += usize::from(reader.in_snapshot);
    }
    assert!(parts > 10, "{parts}");
    assert_eq!(load(&*fs, dir.path()).unwrap().unwrap(), *state);
    assert_eq!(*open().state(), *state);
}

#[test]
fn edits_that_break_an_invariant_are_refused() {
    let (fs, dir) = real();
    let set = open(&fs, dir.path()).unwrap();
    let position = LogPosition(9);
    let flushed = Edit::Flushed { tree: TreeId(1), position };
    set.install(&[create(1), flushed]).unwrap();
    set.install(&[add(1, 1, 5, meta(1, ("d", "k"), (5, 9)))]).unwrap();
    set.install(&[add(1, 2, 1, meta(2, ("a", "z"), (0, 4)))]).unwrap();
    let before = set.state();
    let back = Edit::Flushed { tree: TreeId(1), position: LogPosition(8) };
    let mut inverted = meta(3, ("x", "y"), (1, 2));
    inverted.first_row = b"z".to_vec();
    let mut dropped = meta(3, ("x", "y"), (1, 2));
    dropped.range_tombstones = 1;
    dropped.dropped = Some(RowRange { start: b"j".to_vec(), end: None });
    for (case, edits) in [
        ("overlap in a run", vec![add(1, 1, 5, meta(3, ("k", "p"), (10, 11)))]),
        ("overlap by a range tombstone", vec![add(1, 1, 5, dropped)]),
        ("two last runs", vec![add(1, 2, 2, meta(3, ("a", "b"), (1, 1)))]),
        ("no such level", vec![add(1, 3, 2, meta(3, ("a", "b"), (1, 1)))]),
        ("older above newer", vec![add(1, 0, 9, meta(3, ("d", "e"), (1, 5)))]),
        ("inverted rows", vec![add(1, 0, 9, inverted)]),
        ("removed twice", vec![remove(1, 1, 5, 1), remove(1, 1, 5, 1)]),
        ("flushed goes back", vec![back]),
        ("created twice", vec![create(1)]),
        ("first good, then bad", vec![create(2), create(1)]),
    ] {
        let error = set.install(&edits).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{case}: {error}");
        assert_eq!(*set.state(), *before, "{case}");
    }
    assert!(matches!(set.install(&[remove(7, 0, 1, 1)]), Err(Error::UnknownTree(TreeId(7)))));
    assert_eq!(*open(&fs, dir.path()).unwrap().state(), *before);
}

#[test]
fn a_directory_of_a_newer_format_is_refused_by_name() {
    let (fs, dir) = real();
    open(&fs, dir.path()).unwrap();
    let path = dir.path().join("MANIFEST-0000000001");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 9;
    bytes[12..16].copy_from_slice(&[4, 0, 2, 0]);
    let crc = base::checksum::crc32c(&[&bytes[..28]]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let Err(error) = open(&fs, dir.path()) else { panic!("it was opened") };
    assert!(matches!(error, Error::Unusable { .. }));
    assert!(error.to_string().contains("Stele 2.4 or newer"), "{error}");
}

#[test]
fn data_without_current_is_no_new_directory() {
    for name in ["0000000007.sst", "0000000001.log", "MANIFEST-0000000002"] {
        let (fs, dir) = real();
        std::fs::write(dir.path().join(name), b"x").unwrap();
        let Err(error) = open(&fs, dir.path()) else { panic!("{name}: it was opened") };
        assert!(matches!(error, Error::Corruption(_)), "{name}: {error}");
    }
}

#[test]
fn the_bytes_of_version_one() {
    let (fs, dir) = real();
    open(&fs, dir.path()).unwrap().install(&[create(3)]).unwrap();
    let page = include_str!("../../../../../docs/format/manifest.md");
    let mut examples =
        page.split("```text\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let bytes = std::fs::read(dir.path().join("MANIFEST-0000000001")).unwrap();
    assert_eq!(hex(&bytes), examples.next().unwrap(), "the example of the format page");
    let current = std::fs::read_to_string(dir.path().join("CURRENT")).unwrap();
    assert_eq!(current.trim_end(), examples.next().unwrap());
}

fn hex(bytes: &[u8]) -> String {
    let line = |(index, line): (usize, &[u8])| {
        let bytes: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}", index * 16, bytes.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// A snapshot is held to the same numbers as an edit.
#[test]
fn no_manifest_begins_with_numbers_that_no_reader_takes() {
    let fs = SimFs::new(1);
    let (fs, dir) = (sim(&fs), Path::new("/data"));
    fs.create_dir_all(dir).unwrap();
    let beyond = Edit::NextFile(FileNumber(FileNumber::END + 1));
    let state = State::default().apply(&[beyond]).unwrap();
    let created = super::create(&*fs, dir, &state);
    assert!(matches!(created, Err(Error::WritesStopped(_))), "{created:?}");
    assert!(load(&*fs, dir).is_ok_and(|state| state.is_none()), "it counts");
}
