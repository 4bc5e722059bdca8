//! Rows, columns and values of a stress run.
//!
//! 1. Each row of each tree belongs to one writer, which alone writes it. Rows of all writers
//!    interleave, [`GROUP`] rows of one writer at a time, so that files, blocks and scans hold
//!    rows of all, and a range of rows within a group is a range of one writer's rows.
//! 2. A value follows from where its cell is and from its version, so whatever is read can be
//!    verified by itself: bytes of another cell, another version or another row are found out.

use base::env::Rng;

/// Neighbouring rows of one writer.
pub(crate) const GROUP: u16 = 16;
/// Length of a row key, and of the prefix that rows of a group and those of a writer in it share.
pub(crate) const GROUP_LEN: u16 = 5;
pub(crate) const WRITER_LEN: u16 = 8;
/// The family whose cells are sums; 1 and 2 hold values.
pub(crate) const SUMS: u8 = 3;
/// Timestamps are below this.
pub(crate) const TIMESTAMPS: u8 = 6;
/// Columns of a family in an ordinary row, and in a wide one.
pub(crate) const QUALIFIERS: u8 = 6;
pub(crate) const WIDE_QUALIFIERS: u8 = 120;

/// A row, by the tree's place among the trees, its writer and its number among the writer's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Spot {
    pub(crate) slot: u8,
    pub(crate) writer: u8,
    pub(crate) row: u16,
}

impl Spot {
    /// The row's key.
    pub(crate) fn key(self) -> Vec<u8> {
        key(self.writer, self.row)
    }

    /// The row of `key` in the tree at `slot`; `None` if no writer wrote such a key.
    pub(crate) fn of(slot: u8, key: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(key).ok()?;
        let mut parts = text.split('/');
        let (group, writer, at) = (parts.next()?, parts.next()?, parts.next()?);
        let row = group.parse::<u16>().ok()?.checked_mul(GROUP)? + at.parse::<u16>().ok()?;
        let spot = Self { slot, writer: writer.parse().ok()?, row };
        (spot.key() == key).then_some(spot)
    }

    /// Returns whether the row is wider than a block.
    pub(crate) fn is_wide(self) -> bool {
        self.row % GROUP == GROUP - 1
    }
}

/// The key of a writer's row: ascending with the row.
pub(crate) fn key(writer: u8, row: u16) -> Vec<u8> {
    format!("{:04}/{writer:02}/{:02}", row / GROUP, row % GROUP).into_bytes()
}

/// The qualifier of a number.
pub(crate) fn qualifier(number: u8) -> Vec<u8> {
    format!("q{number:03}").into_bytes()
}

/// The number of a qualifier.
pub(crate) fn qualifier_number(qualifier: &[u8]) -> Option<u8> {
    let number = std::str::from_utf8(qualifier).ok()?.strip_prefix('q')?.parse().ok()?;
    (self::qualifier(number) == qualifier).then_some(number)
}

/// Where a cell is in its row, in the engine's order: newer timestamps first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) family: u8,
    pub(crate) qualifier: u8,
    pub(crate) timestamp: u8,
}

impl Place {
    /// Compares in the engine's order.
    pub(crate) fn order(self) -> (u8, u8, std::cmp::Reverse<u8>) {
        (self.family, self.qualifier, std::cmp::Reverse(self.timestamp))
    }
}

/// The value of version `version` of a cell: the version, then bytes that follow from all of it.
pub(crate) fn value(spot: Spot, place: Place, version: u64) -> Vec<u8> {
    let Spot { slot, writer, row } = spot;
    let at = u64::from_le_bytes([
        slot,
        writer,
        row.to_le_bytes()[0],
        row.to_le_bytes()[1],
        place.family,
        place.qualifier,
        place.timestamp,
        1,
    ]);
    let mut rng = Rng::new(at ^ version.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let len = match rng.below(1000) {
        0 => 20_000 + rng.index(130_000),
        1..100 => 500 + rng.index(3500),
        _ => rng.index(200),
    };
    // One part in three repeats, so that it compresses.
    let mut value = Vec::with_capacity(8 + len + 24);
    value.extend_from_slice(&version.to_le_bytes());
    while value.len() < 8 + len {
        value.extend_from_slice(&rng.next_u64().to_le_bytes());
        value.extend_from_slice(&rng.next_u64().to_le_bytes());
        value.extend_from_slice(b"the same");
    }
    value.truncate(8 + len);
    value
}

/// The version of a value that was read at `place` of `spot`; an error if no version has it.
pub(crate) fn version(spot: Spot, place: Place, read: &[u8]) -> Result<u64, String> {
    let head = read.first_chunk::<8>().ok_or_else(|| format!("a value of {} bytes", read.len()))?;
    let version = u64::from_le_bytes(*head);
    let whole = value(spot, place, version);
    if whole == read {
        return Ok(version);
    }
    let at = whole.iter().zip(read).position(|(a, b)| a != b);
    let at = at.unwrap_or(whole.len().min(read.len()));
    Err(format!(
        "{} bytes that say they are version {version:#x}, which has {}, and differ at byte {at}",
        read.len(),
        whole.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_back_to_its_row() {
        for spot in [(0, 0, 0), (1, 7, 15), (2, 31, 16), (2, 3, 9999)] {
            let spot = Spot { slot: spot.0, writer: spot.1, row: spot.2 };
            assert_eq!(Spot::of(spot.slot, &spot.key()), Some(spot));
        }
        for key in ["", "0001", "0001/02", "0001/02/16", "0001/02/03/", "1/02/03", "0001/2/03"] {
            assert_eq!(Spot::of(0, key.as_bytes()), None, "{key}");
        }
        assert_eq!(qualifier_number(&qualifier(119)), Some(119));
        assert_eq!(qualifier_number(b"q19"), None);
    }

    #[test]
    fn a_value_is_known_by_itself() {
        let spot = Spot { slot: 1, writer: 2, row: 300 };
        let place = Place { family: 1, qualifier: 4, timestamp: 3 };
        for number in 0..3000 {
            let bytes = value(spot, place, number);
            assert_eq!(version(spot, place, &bytes), Ok(number));
            let other = Place { timestamp: 2, ..place };
            assert!(bytes.len() == 8 || version(spot, other, &bytes).is_err());
            assert!(version(spot, place, &bytes[..bytes.len() - 1]).is_err());
        }
    }
}
