//! Body of the fuzz target for the group log: any bytes in the place of a record or of a segment are
//! read or refused without a panic; what was read once is there after a repair and another append.
//!
//! The target is in `/fuzz`; ordinary tests call the body as well, with mutated segments.

use super::record::codec::{Parts, encode_entries};
use super::segment_set::GROUP_LOG_FILES;
use super::{EntryId, GroupId, GroupLog, GroupState, GroupWrite, HardState};
use crate::error::{Corruption, Error};
use crate::log::SegmentNumber;
use crate::log::framing::record::{self, GROUP_LOG, LogRecord, RecordKind};
use crate::options::Options;
use base::env::fs::FileSystem;
use base::env::sim::SimEnv;
use std::path::Path;

/// The first byte chooses what the rest is: one payload, a whole segment, or payloads that are framed
/// as records, each after its length in one byte.
pub fn group_record(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    match choice & 3 {
        0 => payload(data),
        1 => segment(data),
        _ => segment(&framed(data)),
    }
}

/// A payload that decodes is encoded to the same bytes.
fn payload(data: &[u8]) {
    let Ok(parts) = Parts::decode(data) else { return };
    let mut again = Vec::new();
    parts.encode_state(&mut again);
    if let Some(entries) = parts.entries {
        let all: Vec<_> = entries.iter().map(|at| at.entry).collect();
        assert_eq!(all.len() as u64, entries.count);
        encode_entries(&mut again, entries.role, entries.first, all.into_iter());
    }
    assert_eq!(again, data);
}

fn framed(mut data: &[u8]) -> Vec<u8> {
    let mut out = record::encode_file_header(&GROUP_LOG, GROUP_LOG.version, 1);
    while let Some((&len, rest)) = data.split_first() {
        let (payload, rest) = rest.split_at(rest.len().min(len.into()));
        let one = LogRecord::of_kind(RecordKind::Group, payload);
        let offset = out.len() as u64;
        record::encode_record(&mut out, 1, offset, 32, &one);
        data = rest;
    }
    out
}

fn segment(content: &[u8]) {
    let machine = SimEnv::new(1);
    let dir = Path::new("/log");
    let path = GROUP_LOG_FILES.path(dir, SegmentNumber(1));
    let put = machine.fs.create_dir_all(dir).and_then(|()| machine.fs.create(&path));
    put.and_then(|mut file| file.write_all_at(content, 0)).expect("a disk without faults");
    let options = Options { log_segment_bytes: 64 << 10, ..Options::default() };
    let open = || GroupLog::open(&machine.env(), dir, &options);
    match open() {
        Ok(log) => {
            let before = log.groups();
            for (group, state) in &before {
                read_all(&log, *group, state);
            }
            let group = GroupId((0..).find(|id| log.state(GroupId(*id)).is_none()).unwrap_or(0));
            let (hard, start) = (HardState::default(), EntryId::default());
            let one = GroupWrite::Create { group, replica: 1, hard, descriptor: b"", start };
            log.append(&[one]).and_then(|()| log.sync()).expect("the disk has space");
            drop(log);
            let log = open().expect("a repaired log can be read");
            let after: Vec<_> = log.groups().into_iter().filter(|(id, _)| *id != group).collect();
            assert_eq!(after, before);
        }
        Err(Error::Corruption(Corruption { file, offset, .. })) => {
            assert!(file == path && offset <= content.len() as u64);
        }
        Err(Error::Unusable { .. }) => {}
        Err(error) => panic!("not an answer to bytes on disk: {error}"),
    }
}

fn read_all(log: &GroupLog, group: GroupId, state: &GroupState) {
    let GroupState::Alive(state) = state else { return };
    let mut next = state.start.index + 1;
    while let Some(entries) = log.entries(group, next..u64::MAX, 100).expect("it was read before") {
        for entry in entries {
            assert_eq!((entry.index, Some(entry.term)), (next, log.term(group, next)));
            next += 1;
        }
    }
    assert_eq!(next, state.last.index + 1);
}
