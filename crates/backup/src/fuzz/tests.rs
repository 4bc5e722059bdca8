use super::*;
use crate::names::Place;
use crate::record::BackupFile;
use base::env::Rng;
use engine::StoreId;
use engine::checkpoint::{DirFile, Point};
use engine::internals::SegmentNumber;
use engine::internals::{FileIdentity, FileNumber};

pub(crate) fn example() -> Record {
    let file = |file, place| BackupFile { file, bytes: 5 << 20, sum: 77, place };
    Record {
        store: StoreId(7 << 90),
        taken_micros: 1_700_000_000_000_000,
        finished_micros: 1_700_000_001_000_000,
        point: Point { sequence: 4711, commit_micros: 1_699_999_999_000_000 },
        sent_bytes: 12,
        version: "0.1.0".into(),
        files: vec![
            file(DirFile::Sst(FileNumber(3)), Place::Identity(FileIdentity(1 << 100))),
            file(DirFile::Sst(FileNumber(4)), Place::Content(99)),
            file(DirFile::Log(SegmentNumber(1)), Place::Own),
            file(DirFile::Manifest(1), Place::Own),
        ],
    }
}

#[test]
fn a_record_reads_back_and_every_flip_and_cut_is_refused() {
    let bytes = example().encode();
    assert_eq!(Record::decode(&bytes), Ok(example()));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            assert!(Record::decode(&flipped).is_err(), "bit {bit} of byte {at}");
        }
        assert!(Record::decode(&bytes[..at]).is_err(), "cut at {at}");
    }
}

/// Behind a checksum that fits, every byte may be anything.
#[test]
fn no_payload_makes_a_decoder_panic() {
    let record = example().encode();
    let begun = Begun { micros: 9, place: "host".into() };
    let trailer = Trailer { kind: 1, bytes: 3 << 20, sums: vec![1, 2, 3] };
    let seeds = [
        (2, record[16..record.len() - 8].to_vec()),
        (1, begun.encode(Kind::Intent)[16..].to_vec()),
        (0, vec![0; 16]),
    ];
    let mut rng = Rng::new(1);
    for (kind, payload) in seeds {
        for _ in 0..20_000 {
            let mut mutated = payload.clone();
            for _ in 0..=rng.below(3) {
                let at = rng.index(mutated.len());
                mutated[at] = rng.next_u64() as u8;
            }
            mutated.truncate(if rng.chance(10) { rng.index(mutated.len()) } else { usize::MAX });
            small_object(&[&[kind | 4][..], &mutated].concat());
            small_object(&[&[kind][..], &mutated].concat());
        }
    }
    for _ in 0..20_000 {
        let mut bytes = [&(3u64 << 20).to_le_bytes()[..], &trailer.encode()].concat();
        let at = rng.index(bytes.len());
        bytes[at] = rng.next_u64() as u8;
        super::trailer(&bytes);
        let mut text = b"20231114T221320000000Z-000000ab".to_vec();
        let at = rng.index(text.len());
        text[at] = rng.next_u64() as u8;
        id(&text);
    }
}

#[test]
fn a_record_that_says_something_impossible_is_refused() {
    let wrong = |change: &dyn Fn(&mut Record), says: &str| {
        let mut record = example();
        change(&mut record);
        let refused = Record::decode(&record.encode()).unwrap_err();
        assert!(refused.what.contains(says), "{refused:?}");
    };
    wrong(&|record| record.files.swap(0, 1), "not in order");
    wrong(&|record| record.files[0] = record.files[1], "not in order");
    wrong(&|record| record.files[0].place = Place::Own, "another kind");
    wrong(&|record| record.files[2].place = Place::Content(1), "another kind");
    wrong(&|record| record.files[0].bytes = 1 << 41, "out of range");
    wrong(&|record| record.files[0].file = DirFile::Sst(FileNumber(0)), "out of range");
    wrong(&|record| record.files.truncate(3), "one manifest");
}
