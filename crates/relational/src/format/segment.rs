//! Keys of segments of columnar tables: docs/format/columnar_table.md.
//!
//! Numbers of segments ascend in the order of their keys.

use super::key::after_prefix;
use crate::catalog::{LOADS_PART, SEGMENTS_PART};
use crate::error::{Error, Result};
use engine::RowRange;
use std::ops::RangeInclusive;

/// Returns the key of the descriptor of a segment.
pub(crate) fn segment_key(segment: u64) -> Vec<u8> {
    [&SEGMENTS_PART.to_be_bytes()[..], &segment.to_be_bytes()].concat()
}

/// Returns the number of the segment that a key of a descriptor is of. XX001 for another key.
pub(crate) fn read_segment_key(key: &[u8]) -> Result<u64> {
    match key.strip_prefix(&SEGMENTS_PART.to_be_bytes()).map(<[u8; 8]>::try_from) {
        Some(Ok(segment)) => Ok(u64::from_be_bytes(segment)),
        _ => Err(Error::corrupted(format!("'{}' is no key of a segment", key.escape_ascii()))),
    }
}

/// Returns the key that tells of the pages of segments which no commit has.
pub(crate) fn load_key(segments: &RangeInclusive<u64>) -> Vec<u8> {
    let (first, last) = (segments.start().to_be_bytes(), segments.end().to_be_bytes());
    [&LOADS_PART.to_be_bytes()[..], &first, &last].concat()
}

/// Returns the segments that such a key tells of. XX001 for another key.
pub(crate) fn read_load_key(key: &[u8]) -> Result<RangeInclusive<u64>> {
    let numbers = key.strip_prefix(&LOADS_PART.to_be_bytes());
    let halves = numbers.and_then(|numbers| numbers.split_at_checked(8));
    let read = halves.and_then(|(first, last)| {
        let (first, last) = (first.try_into().ok()?, last.try_into().ok()?);
        Some(u64::from_be_bytes(first)..=u64::from_be_bytes(last))
    });
    read.filter(|segments| !segments.is_empty())
        .ok_or_else(|| Error::corrupted(format!("'{}' is no key of a load", key.escape_ascii())))
}

/// Returns the range of the keys of descriptors.
pub(crate) fn segments() -> RowRange {
    part(SEGMENTS_PART)
}

/// Returns the range of the keys of loads.
pub(crate) fn loads() -> RowRange {
    part(LOADS_PART)
}

fn part(part: u16) -> RowRange {
    let prefix = part.to_be_bytes();
    RowRange { start: prefix.to_vec(), end: after_prefix(&prefix) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_were_written_and_others_are_damage() {
        for segment in [0, 1, 255, 1 << 40, u64::MAX] {
            let key = segment_key(segment);
            assert_eq!(read_segment_key(&key), Ok(segment));
            assert!(segments().contains(&key) && !loads().contains(&key));
            for bad in [&key[..9], &[&key[..], b"x"].concat(), b""] {
                assert_eq!(read_segment_key(bad).unwrap_err().state.code(), "XX001");
                assert_eq!(read_load_key(bad).unwrap_err().state.code(), "XX001");
            }
            let key = load_key(&(segment..=u64::MAX));
            assert_eq!(read_load_key(&key), Ok(segment..=u64::MAX));
            assert!(loads().contains(&key) && !segments().contains(&key));
            for bad in [&key[..17], &[&key[..], b"x"].concat(), b""] {
                assert_eq!(read_load_key(bad).unwrap_err().state.code(), "XX001");
            }
        }
        assert!(read_load_key(&load_key(&RangeInclusive::new(2, 1))).is_err(), "an empty range");
    }
}
