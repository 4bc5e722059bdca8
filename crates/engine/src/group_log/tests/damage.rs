//! Damaged files: each is read as it was, or refused with the file and a place in it. The one
//! exception is the unsynced end of a log that was not closed cleanly.

use super::super::replay::{dump, verify};
use super::super::segment_set::GROUP_LOG_FILES;
use super::*;
use crate::error::Corruption;
use crate::log::SegmentNumber;
use base::env::Rng;
use base::env::fs::FileSystem;
use std::path::PathBuf;
use std::sync::Arc;

/// The way in which the log under test came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Died,
}

/// A log of several segments with recycled ones, a removed group, states that were carried forward
/// and entries that were appended again; and every state that it had at a sync, the last one last.
fn log(end: End) -> (SimEnv, Vec<Vec<(GroupId, GroupState)>>) {
    let machine = SimEnv::new(1);
    let log = open(&machine, &small(700)).unwrap();
    let mut states = Vec::new();
    let round = [create(1), create(2), create(3)];
    log.append(&round).unwrap();
    append(&log, 2, 1, &[2; 30]).unwrap();
    append(&log, 2, 2, &[3; 30]).unwrap();
    log.append(&[GroupWrite::Remove { group: GroupId(3), least_replica: 2 }]).unwrap();
    for index in 1..=20 {
        append(&log, 1, index, &[index as u8; 60]).unwrap();
        log.sync().unwrap();
        states.push(log.groups());
        if index == 12 {
            log.append_again(GroupId(2)).unwrap();
            log.truncate(GroupId(1), 9).unwrap();
            assert!(log.reclaim().unwrap() > 0);
            states = vec![log.groups()];
        }
    }
    if end == End::Closed {
        log.close().unwrap();
    }
    // A truncation that was not carried may be forgotten.
    drop(log);
    let again = open(&copied(&machine), &small(700)).unwrap();
    assert_eq!(again.groups(), *states.last().unwrap());
    (machine, states)
}

/// Returns another machine with a copy of the files.
fn copied(machine: &SimEnv) -> SimEnv {
    let copy = SimEnv::new(2);
    copy.fs.create_dir_all(dir()).unwrap();
    for (path, _) in machine.fs.files() {
        copy.fs.create(&path).unwrap();
        copy.fs.overwrite(&path, &machine.fs.read(&path).unwrap()).unwrap();
    }
    copy
}

fn files(machine: &SimEnv) -> Vec<(PathBuf, usize)> {
    let is_segment = |path: &Path| path.extension() == Some("glog".as_ref());
    let files = machine.fs.files().into_iter().filter(|(path, _)| is_segment(path));
    files.map(|(path, len)| (path, len as usize)).collect()
}

/// Opens a copy of the damaged log, and asks a check of it.
fn judge(
    machine: &SimEnv,
    states: &[Vec<(GroupId, GroupState)>],
    (file, at): (&Path, usize),
    case: &str,
) {
    let fs: Arc<dyn FileSystem> = Arc::new(machine.fs.clone());
    let mut found = Vec::new();
    verify(&fs, dir(), &mut |damage| found.push(damage)).unwrap();
    let copy = copied(machine);
    match open(&copy, &small(700)) {
        Ok(log) => {
            assert!(states.contains(&log.groups()), "{case}");
            assert!(found.is_empty(), "{case}: {found:?}");
        }
        Err(Error::Corruption(Corruption { file: told, offset, .. })) => {
            assert_eq!((told.as_path(), offset as usize <= at), (file, true), "{case}: {offset}");
            assert!(found.iter().any(|(path, ..)| *path == told), "{case}: {found:?}");
        }
        Err(error) => panic!("{case}: {error}"),
    }
}

#[test]
fn every_flipped_byte_is_harmless_or_corruption() {
    for end in [End::Closed, End::Died] {
        let (machine, states) = log(end);
        let kept = if end == End::Closed { 1 } else { 2 };
        let states = &states[states.len() - kept..];
        assert!(files(&machine).len() >= 3);
        for (path, len) in files(&machine) {
            let intact = machine.fs.read(&path).unwrap();
            for at in 0..len {
                let mask = [0x01, 0x80, 0xff][at % 3];
                machine.fs.flip(&path, at, mask).unwrap();
                let case = format!("{end:?}: {} byte {at} mask {mask}", path.display());
                judge(&machine, states, (&path, at), &case);
                machine.fs.overwrite(&path, &intact).unwrap();
            }
        }
    }
}

#[test]
fn a_cut_segment_is_corruption_and_a_cut_log_ends_there() {
    let (machine, states) = log(End::Died);
    let all = files(&machine);
    let (last, _) = all.last().unwrap().clone();
    for (path, len) in all {
        let intact = machine.fs.read(&path).unwrap();
        for at in (0..len).step_by(3) {
            machine.fs.overwrite(&path, &intact[..at]).unwrap();
            let case = format!("{} cut at {at}", path.display());
            let states = if path == last { &states[..] } else { &states[states.len() - 1..] };
            judge(&machine, states, (&path, at), &case);
        }
        machine.fs.overwrite(&path, &intact).unwrap();
    }
}

#[test]
fn a_missing_segment_is_corruption() {
    let (machine, _) = log(End::Closed);
    for (path, _) in &files(&machine)[..2] {
        let copy = copied(&machine);
        copy.fs.remove_file(path).unwrap();
        let opened = open(&copy, &small(700)).map(|log| log.groups());
        assert!(matches!(opened, Err(Error::Corruption(_))), "{}: {opened:?}", path.display());
    }
}

#[test]
fn reads_refuse_a_record_that_was_damaged_while_the_log_was_open() {
    let machine = SimEnv::new(1);
    let log = open(&machine, &Options::default()).unwrap();
    log.append(&[create(1)]).unwrap();
    append(&log, 1, 1, b"payload").unwrap();
    let path = GROUP_LOG_FILES.path(dir(), SegmentNumber(1));
    let bytes = machine.fs.read(&path).unwrap();
    let at = bytes.windows(7).position(|window| window == b"payload").unwrap();
    machine.fs.flip(&path, at, 1).unwrap();
    let read = log.entries(GroupId(1), 1..2, 9);
    let Err(Error::Corruption(Corruption { file, .. })) = read else { panic!("{read:?}") };
    assert_eq!(file, path);
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let machine = SimEnv::new(1);
    open(&machine, &Options::default()).unwrap().append(&[create(1)]).unwrap();
    let path = GROUP_LOG_FILES.path(dir(), SegmentNumber(1));
    let mut bytes = machine.fs.read(&path).unwrap();
    bytes[8] = 2;
    let crc = base::checksum::crc32c(&[&bytes[..28]]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    machine.fs.overwrite(&path, &bytes).unwrap();
    let opened = open(&machine, &Options::default()).map(drop);
    let Err(Error::Unusable { what, .. }) = opened else { panic!("{opened:?}") };
    assert!(what.contains("0000000001.glog has format 2"), "{what}");
}

#[test]
fn the_bytes_of_version_one_and_their_dump() {
    let machine = SimEnv::new(1);
    let log = open(&machine, &Options::default()).unwrap();
    let hard = HardState { term: 2, vote: 3, commit: 0 };
    let (group, start) = (GroupId(7), EntryId::default());
    log.append(&[GroupWrite::Create { group, replica: 3, hard, descriptor: b"d", start }]).unwrap();
    let entries = &[GroupEntry { term: 2, kind: 0, payload: b"v" }][..];
    let hard = Some(HardState { term: 2, vote: 3, commit: 1 });
    let (descriptor, snapshot) = (None, None);
    log.append(&[GroupWrite::Append { group, hard, descriptor, snapshot, first: 1, entries }])
        .unwrap();
    log.close().unwrap();
    let path = GROUP_LOG_FILES.path(dir(), SegmentNumber(1));
    let bytes = machine.fs.read(&path).unwrap();
    let page = include_str!("../../../../../docs/format/group_log.md");
    let example = page.split("```text\n").nth(1).and_then(|rest| rest.split("\n```").next());
    assert_eq!(hex(&bytes), example.unwrap(), "the example of the format page");
    let mut out = Vec::new();
    let show = |payload: &[u8]| Some(payload.escape_ascii().to_string());
    dump(&machine.fs, &path, &show, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("group 7, whole state of replica 3, term 2, vote 3, commit 0"), "{text}");
    assert!(text.contains("entry 1 of term 2, kind 0: v"), "{text}");
}

fn hex(bytes: &[u8]) -> String {
    let line = |(index, line): (usize, &[u8])| {
        let bytes: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}", index * 16, bytes.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_fuzz_body_stands_mutated_segments_and_payloads() {
    let (machine, _) = log(End::Died);
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    let all = files(&machine);
    for (path, _) in &all {
        let bytes = machine.fs.read(path).unwrap();
        seeds.push([&[1], &bytes[..]].concat());
    }
    let state = [7, 1, 3, 2, 2, 3, 0, 3, 1, b'd', 4, 0, 0, 1];
    let entries = [7, 2, 2, 3, 2, 5, 1, 2, 2, 0, 1, b'v', 2, 1, 1, b'w'];
    let again = [7, 6, 1, 1, 2, 0, 1, b'v'];
    let end = [7, 1, 3, 2, 2, 3, 0, 3, 1, b'd', 4, 0, 0, 0, 7, 2, 1, 2, 1, 1, b'w'];
    let removed = [7, 8, 4];
    let parts: [&[u8]; 5] = [&state, &entries, &again, &end, &removed];
    for part in parts {
        seeds.push([&[0], part].concat());
    }
    let mut framed = vec![2];
    for part in parts {
        framed.push(part.len() as u8);
        framed.extend(part);
    }
    seeds.extend([framed.clone(), framed]);
    let mut rng = Rng::new(1);
    seeds.iter().for_each(|seed| fuzz::group_record(seed));
    for _ in 0..4000 {
        let seed = &seeds[rng.index(seeds.len())];
        fuzz::group_record(&mutate(&mut rng, seed));
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

#[test]
fn a_segment_that_ends_early_is_damage_with_a_place() {
    let machine = SimEnv::new(1);
    let log = open(&machine, &small(4000)).unwrap();
    log.append(&[create(1)]).unwrap();
    append(&log, 1, 1, &[7; 100]).unwrap();
    append(&log, 1, 2, &[8; 100]).unwrap();
    log.sync().unwrap();
    let path = dir().join("0000000001.glog");
    let bytes = machine.fs.read(&path).unwrap();
    let end = bytes.windows(100).position(|part| part == [8; 100]).unwrap();
    machine.fs.overwrite(&path, &bytes[..end + 50]).unwrap();
    assert_eq!(log.entries(GroupId(1), 1..2, 1).unwrap().unwrap().len(), 1);
    let read = log.entries(GroupId(1), 2..3, 1);
    let Err(Error::Corruption(found)) = &read else { panic!("{read:?}") };
    assert!(found.file == path && found.offset > 0 && found.offset < end as u64, "{found}");
}
