//! Damaged manifests: each is read as it was, or refused with the file and a place in it.

use super::*;
use crate::error::Corruption;
use base::env::Rng;
use std::path::PathBuf;

fn dir() -> &'static Path {
    Path::new("")
}

/// Bytes of a record: the snapshot is in one, or in many.
const RECORDS: [usize; 2] = [1 << 20, 100];

/// A directory whose manifest has a snapshot and some edits, and its state.
fn directory(record_bytes: usize) -> (SimFs, State) {
    let fs = SimFs::new(1);
    let shape = Shape { manifest_record_bytes: record_bytes, ..rolling_at(300) };
    let set = ManifestSet::open_shaped(sim(&fs), dir(), &shape).unwrap();
    set.install(&[create(1), create(2)]).unwrap();
    for number in 1..=6 {
        let new = meta(set.new_file().unwrap().0, ("a", "z"), (number, number));
        set.install(&[add(1, 0, number, new)]).unwrap();
    }
    set.install(&[Edit::DropTree { tree: TreeId(2) }]).unwrap();
    (fs, State::clone(&set.state()))
}

fn files(fs: &SimFs) -> Vec<(PathBuf, usize)> {
    fs.files().into_iter().map(|(path, len)| (path, len as usize)).collect()
}

#[test]
fn every_flipped_byte_is_harmless_or_corruption() {
    RECORDS.into_iter().for_each(flip_every_byte);
}

fn flip_every_byte(record_bytes: usize) {
    let (fs, state) = directory(record_bytes);
    let all = files(&fs);
    assert_eq!(all.len(), 2);
    for (path, len) in all {
        for at in 0..len {
            for mask in [0x01, 0x80, 0xff] {
                fs.flip(&path, at, mask).unwrap();
                let case = format!("{} byte {at} mask {mask}", path.display());
                match load(&fs, dir()) {
                    Ok(found) => assert_eq!(found.as_ref(), Some(&state), "{case}"),
                    Err(Error::Corruption(Corruption { file, offset, .. })) => {
                        assert_eq!(file, path, "{case}");
                        assert!(offset as usize <= at, "{case}: reported at {offset}");
                    }
                    Err(error) => panic!("{case}: {error}"),
                }
                fs.flip(&path, at, mask).unwrap();
            }
        }
    }
}

#[test]
fn a_cut_manifest_ends_before_the_cut_or_is_corruption() {
    RECORDS.into_iter().for_each(cut_everywhere);
}

fn cut_everywhere(record_bytes: usize) {
    let (fs, _) = directory(record_bytes);
    let (path, len) = files(&fs).pop().unwrap();
    let mut states = Vec::new();
    let mut reader = EditReader::open(&fs, &path).unwrap();
    let mut state = State::default();
    let mut first_end = None;
    while let Some((_, edits)) = reader.next().unwrap() {
        state = state.apply(&edits).unwrap();
        if !reader.in_snapshot {
            first_end.get_or_insert(reader.end() as usize);
            states.push((reader.end() as usize, state.clone()));
        }
    }
    assert!(states.len() > 1);
    let intact = fs.read(&path).unwrap();
    for at in 0..len {
        fs.overwrite(&path, &intact[..at]).unwrap();
        match load(&fs, dir()) {
            Ok(found) => {
                let left = states.iter().rev().find(|(end, _)| *end <= at).map(|(_, state)| state);
                assert_eq!(found.as_ref(), left, "cut at {at}");
            }
            Err(Error::Corruption(Corruption { file, offset, .. })) => {
                assert!(file == path && at < first_end.unwrap() && offset as usize <= at);
            }
            Err(error) => panic!("cut at {at}: {error}"),
        }
    }
}

#[test]
fn a_missing_manifest_is_corruption() {
    let (fs, _) = directory(RECORDS[0]);
    let (path, _) = files(&fs).pop().unwrap();
    fs.remove_file(&path).unwrap();
    let Err(Error::Corruption(Corruption { file, .. })) = load(&fs, dir()) else {
        panic!("it was read")
    };
    assert_eq!(file, path);
}

#[test]
fn reading_changes_nothing() {
    let (fs, state) = directory(RECORDS[0]);
    let (path, _) = files(&fs).pop().unwrap();
    let mut content = fs.read(&path).unwrap();
    content.extend([1, 2, 3]);
    fs.overwrite(&path, &content).unwrap();
    let operations = fs.operations();
    assert_eq!(load(&fs, dir()).unwrap().unwrap(), state);
    assert_eq!(fs.operations(), operations);
    assert_eq!(fs.read(&path).unwrap(), content);
    let set = ManifestSet::open(sim(&fs), dir()).unwrap();
    assert_eq!(*set.state(), state);
    assert_eq!(fs.read(&path).unwrap(), content[..content.len() - 3], "opening cuts a torn tail");
}

#[test]
fn fuzz_bodies_stand_mutated_manifests() {
    let (fs, state) = directory(RECORDS[1]);
    let (path, _) = files(&fs).pop().unwrap();
    let mut edits = vec![2];
    state.to_edits().iter().for_each(|edit| edit.encode_into(&mut edits));
    let whole = [&[0][..], &fs.read(&path).unwrap()].concat();
    let headless = [&[1][..], &whole[33..]].concat();
    let mut rng = Rng::new(1);
    for seed in [edits, whole, headless] {
        fuzz::manifest_edit(&seed);
        for _ in 0..2000 {
            let mut bytes = seed.clone();
            for _ in 0..1 + rng.index(3) {
                let at = rng.index(bytes.len() + 1);
                match (rng.below(4), bytes.get_mut(at)) {
                    (0, _) => bytes.truncate(at),
                    (1, _) => bytes.insert(at, rng.next_u64() as u8),
                    (_, Some(byte)) => *byte ^= 1 << rng.below(8),
                    (_, None) => {}
                }
            }
            fuzz::manifest_edit(&bytes);
        }
    }
}
