//! The range-tombstone block: dropped row ranges, sorted.
//!
//! ```text
//! count varint | { start string | bounded u8 | end string | sequence u64 }
//! ```
//! `bounded` is 1 when there is an end, else 0 and `end` is empty. Sorted strictly by start, end
//! (no end last) and sequence number.

use super::damage::{Damage, ensure};
use crate::batch::ROW_BYTES_MAX;
use crate::cell::{RangeTombstone, SequenceNumber};
use crate::request::RowRange;
use base::codec::{ByteReader, DecodeError, PutBytes};

/// From the smallest start to the largest end.
pub(crate) fn hull(tombstones: &[RangeTombstone]) -> Option<RowRange> {
    let start = tombstones.iter().map(|tombstone| &tombstone.start).min()?.clone();
    let unbounded = tombstones.iter().any(|tombstone| tombstone.end.is_none());
    let end = tombstones.iter().filter_map(|tombstone| tombstone.end.as_ref()).max();
    Some(RowRange { start, end: end.filter(|_| !unbounded).cloned() })
}

/// Encodes tombstones that are in order.
pub(crate) fn encode(tombstones: &[RangeTombstone]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_varint(tombstones.len() as u64);
    for tombstone in tombstones {
        out.put_string(&tombstone.start);
        out.push(u8::from(tombstone.end.is_some()));
        out.put_string(tombstone.end.as_deref().unwrap_or_default());
        out.put_u64(tombstone.sequence.0);
    }
    out
}

/// The tombstones in `bytes`, checked. Allocates in proportion to `bytes`.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<RangeTombstone>, Damage> {
    let mut reader = ByteReader::new(bytes);
    let at = |reader: &ByteReader<'_>| bytes.len() - reader.rest().len();
    let count = reader.varint("count").map_err(|error| Damage::decode(0, error))?;
    let mut tombstones: Vec<RangeTombstone> = Vec::new();
    for _ in 0..count {
        let start = at(&reader);
        let tombstone = read(&mut reader).map_err(|error| Damage::decode(at(&reader), error))?;
        let tombstone = tombstone.ok_or(Damage::new(start, "a dropped range that is malformed"))?;
        let ordered = tombstones.last().is_none_or(|last| order(last) < order(&tombstone));
        ensure(ordered, start, "dropped ranges out of order")?;
        tombstones.push(tombstone);
    }
    reader.finish().map_err(|error| Damage::decode(at(&reader), error))?;
    Ok(tombstones)
}

fn read(reader: &mut ByteReader<'_>) -> Result<Option<RangeTombstone>, DecodeError> {
    let start = reader.string("range start")?;
    let bounded = reader.u8("range flag")?;
    let end = reader.string("range end")?;
    let sequence = SequenceNumber(reader.u64("sequence number")?);
    let whole = match bounded {
        0 => end.is_empty(),
        1 => start < end,
        _ => false,
    };
    let within = start.len() <= ROW_BYTES_MAX && end.len() <= ROW_BYTES_MAX;
    let fits = whole && within && sequence <= SequenceNumber::MAX;
    let end = (bounded == 1).then(|| end.to_vec());
    Ok(fits.then(|| RangeTombstone { start: start.to_vec(), end, sequence }))
}

/// The order of the block.
pub(crate) fn order(tombstone: &RangeTombstone) -> (&[u8], bool, Option<&[u8]>, SequenceNumber) {
    let end = tombstone.end.as_deref();
    (&tombstone.start, end.is_none(), end, tombstone.sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &[u8], end: Option<&[u8]>, sequence: u64) -> RangeTombstone {
        let end = end.map(<[u8]>::to_vec);
        RangeTombstone { start: start.to_vec(), end, sequence: SequenceNumber(sequence) }
    }

    #[test]
    fn ranges_read_back_in_their_order() {
        let ranges = [
            range(b"", Some(b"a"), 9),
            range(b"a", Some(b"b"), 1),
            range(b"a", Some(b"b"), 2),
            range(b"a", None, 1),
        ];
        let bytes = encode(&ranges);
        assert_eq!(decode(&bytes).unwrap(), ranges);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "cut at {len}");
        }
    }

    #[test]
    fn malformed_ranges_are_refused() {
        for (case, ranges) in [
            ("inverted", vec![range(b"b", Some(b"a"), 1)]),
            ("empty", vec![range(b"a", Some(b"a"), 1)]),
            ("twice", vec![range(b"a", None, 1), range(b"a", None, 1)]),
            ("sequence", vec![range(b"a", None, 1 << 56)]),
        ] {
            assert!(decode(&encode(&ranges)).is_err(), "{case}");
        }
        assert!(decode(&[0xff, 0xff, 0xff, 0x7f]).is_err(), "a count without ranges");
    }
}
