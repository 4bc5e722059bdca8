//! Batches of several trees in one record, so that the checksum of the record makes them one: a log has all of
//! them or none. Layout: docs/format/commit_log.md, type 8.
//!
//! 1. A record has at least two parts. Their trees ascend, and so do their numbers.
//! 2. Readers of the log give each part as a record of its own, in their order, so that nothing else need know.

use super::framing::record::{LogRecord, RecordHeader, RecordKind};
use crate::cell::{SequenceNumber, TreeId};
use base::checksum::crc32c;
use base::codec::{ByteReader, DecodeError, PutBytes};

/// Bytes of a part without its batch.
const PART_HEADER_LEN: usize = 12;

/// A part as it is written.
pub(crate) struct TreeBatch<'a> {
    pub(crate) tree: TreeId,
    /// Mutations of the parts before it.
    pub(crate) before: u32,
    /// The batch of the tree, encoded.
    pub(crate) batch: &'a [u8],
}

/// The payload of a record with `parts`, which keep to rule 1.
pub(crate) fn encode(parts: &[TreeBatch<'_>]) -> Vec<u8> {
    debug_assert!(parts.len() > 1 && parts.is_sorted_by(|a, b| a.tree < b.tree));
    let bytes = parts.iter().map(|part| PART_HEADER_LEN + part.batch.len()).sum();
    let mut out = Vec::with_capacity(bytes);
    for TreeBatch { tree, before, batch } in parts {
        out.put_u32(tree.0);
        out.put_u32(*before);
        out.put_u32(batch.len() as u32);
        out.extend_from_slice(batch);
    }
    out
}

/// Position of a walk of the parts of a record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PartWalk {
    /// Start of the next part in the payload.
    offset: usize,
}

impl PartWalk {
    /// A walk from the first part of `record` on; every part was checked. The text tells what is wrong.
    pub(crate) fn begin(record: &LogRecord<'_>) -> Result<Self, &'static str> {
        let mut walk = Self::default();
        let mut last: Option<(TreeId, u32)> = None;
        let mut count = 0;
        while let Some(part) = walk.read(record.payload).map_err(|_| CUT)? {
            let TreeBatch { tree, before, .. } = part;
            match last {
                None if before != 0 => return Err("a first part that is not the first"),
                Some((t, b)) if tree <= t || before <= b => return Err("parts out of their order"),
                _ => {}
            }
            if record.first.0 + u64::from(before) > SequenceNumber::MAX.0 {
                return Err("a number that no record reaches");
            }
            last = Some((tree, before));
            count += 1;
        }
        if count < 2 { Err("a write over several trees with one") } else { Ok(Self::default()) }
    }

    /// Steps to the next part of `record`, the one that the walk began with, and gives it as a record.
    pub(crate) fn step<'a>(&mut self, record: &LogRecord<'a>) -> Option<LogRecord<'a>> {
        let part = self.read(record.payload).ok().flatten()?;
        let TreeBatch { tree, before, batch: payload } = part;
        let first = SequenceNumber(record.first.0 + u64::from(before));
        let LogRecord { commit_time, .. } = *record;
        let payload_crc = crc32c(&[payload]);
        Some(LogRecord { kind: RecordKind::Batch, tree, first, commit_time, payload, payload_crc })
    }

    /// Returns whether all parts of `payload` were given.
    pub(crate) fn is_done(&self, payload_len: usize) -> bool {
        self.offset >= payload_len
    }

    fn read<'a>(&mut self, payload: &'a [u8]) -> Result<Option<TreeBatch<'a>>, DecodeError> {
        let rest = payload.get(self.offset..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let mut reader = ByteReader::new(rest);
        let tree = TreeId(reader.u32("tree")?);
        let before = reader.u32("mutations before a part")?;
        let len = reader.u32("length of a part")? as usize;
        let batch = reader.bytes(len, "batch")?;
        self.offset += PART_HEADER_LEN + len;
        Ok(Some(TreeBatch { tree, before, batch }))
    }
}

const CUT: &str = "a write over several trees that is cut";

/// A record of several trees that a reader is giving part by part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Split {
    pub(crate) offset: u64,
    pub(crate) header: RecordHeader,
    pub(crate) walk: PartWalk,
}

/// Calls `act` with each batch of `record`: the record itself, or its parts. The text tells what is wrong.
pub(crate) fn for_each<'a>(
    record: &LogRecord<'a>,
    mut act: impl FnMut(LogRecord<'a>),
) -> Result<(), &'static str> {
    if record.kind != RecordKind::Batches {
        act(*record);
        return Ok(());
    }
    let mut walk = PartWalk::begin(record)?;
    while let Some(part) = walk.step(record) {
        act(part);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(payload: &[u8]) -> LogRecord<'_> {
        let kind = RecordKind::Batches;
        LogRecord { kind, ..LogRecord::new(TreeId(0), SequenceNumber(10), 1000, payload) }
    }

    /// Tree, number and batch of a part.
    type Part = (u32, u64, Vec<u8>);

    fn parts(payload: &[u8]) -> Result<Vec<Part>, &'static str> {
        let mut found = Vec::new();
        for_each(&record(payload), |part| {
            assert_eq!((part.kind, part.commit_time), (RecordKind::Batch, 1000));
            found.push((part.tree.0, part.first.0, part.payload.to_vec()));
        })?;
        Ok(found)
    }

    fn of(tree: u32, before: u32, batch: &[u8]) -> TreeBatch<'_> {
        TreeBatch { tree: TreeId(tree), before, batch }
    }

    #[test]
    fn parts_come_back_as_records_of_their_trees() {
        let payload = encode(&[of(3, 0, b"one"), of(5, 2, b""), of(9, 3, b"three")]);
        let found = parts(&payload).unwrap();
        let want = [(3, 10, b"one".to_vec()), (5, 12, Vec::new()), (9, 13, b"three".to_vec())];
        assert_eq!(found, want);
        let golden = [&[3u8, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0][..], b"one"].concat();
        assert_eq!(payload[..golden.len()], golden);
    }

    #[test]
    fn a_record_that_is_cut_has_no_parts() {
        let payload = encode(&[of(3, 0, b"one"), of(5, 2, b"two")]);
        for len in 0..payload.len() {
            assert!(parts(&payload[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn parts_that_cannot_be_are_refused() {
        let two = |a, b| [of_bytes(a), of_bytes(b)].concat();
        fn of_bytes((tree, before): (u32, u32)) -> Vec<u8> {
            let mut out = Vec::new();
            [tree, before, 0].iter().for_each(|field| out.put_u32(*field));
            out
        }
        assert!(parts(&two((3, 0), (4, 1))).is_ok());
        for (case, payload) in [
            ("trees out of order", two((4, 0), (3, 1))),
            ("one tree twice", two((4, 0), (4, 1))),
            ("numbers out of order", two((3, 0), (4, 0))),
            ("a first part that counts from elsewhere", two((3, 1), (4, 2))),
            ("one part", of_bytes((3, 0))),
            ("no part", Vec::new()),
        ] {
            assert!(parts(&payload).is_err(), "{case}");
        }
        let last = LogRecord { first: SequenceNumber::MAX, ..record(&[]) };
        let payload = two((3, 0), (4, 1));
        assert!(for_each(&LogRecord { payload: &payload, ..last }, |_| ()).is_err());
    }
}
