//! The rows, columns, timestamps and values of a workload: few enough that deletes meet their
//! cells, odd enough to try the ends of every order.

use base::env::Rng;
use engine::RowRange;
use engine::TimestampRange;
use engine::merge_operator::{Operand, Operator};
use engine::{FamilyId, Timestamp};

/// Rows with ordinary names.
const ROWS: u64 = 40;

pub fn row(rng: &mut Rng) -> Vec<u8> {
    match rng.below(20) {
        0 => rng.pick(&[vec![], vec![0], vec![0, 0], vec![255], vec![255, 255]]).clone(),
        1 => format!("row-{:02}\0", rng.below(ROWS)).into_bytes(),
        2 => format!("row-0{}/{}", rng.below(3), "long".repeat(60)).into_bytes(),
        _ => format!("row-{:02}", rng.below(ROWS)).into_bytes(),
    }
}

/// A range of rows; sometimes everything, sometimes one row, sometimes nothing.
pub fn rows(rng: &mut Rng) -> RowRange {
    match rng.below(8) {
        0 => RowRange::ALL,
        1 => RowRange::single(&row(rng)),
        2 => RowRange::prefix(format!("row-{}", rng.below(4)).as_bytes()),
        3 => RowRange { start: row(rng), end: None },
        _ => RowRange { start: row(rng), end: Some(row(rng)) },
    }
}

pub fn family(rng: &mut Rng) -> FamilyId {
    FamilyId(*rng.pick(&[1, 1, 1, 2, 2, 3, u16::MAX]))
}

pub fn qualifier(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0 => vec![],
        1 => vec![255],
        2 => b"q1\0".to_vec(),
        _ => format!("q{}", rng.below(6)).into_bytes(),
    }
}

pub fn timestamp(rng: &mut Rng) -> Timestamp {
    match rng.below(30) {
        0 => Timestamp::MIN,
        1 => Timestamp::MAX,
        _ => Timestamp(rng.below(7) as i64 - 1),
    }
}

/// A range of timestamps; now and then an empty one.
pub fn timestamps(rng: &mut Rng) -> TimestampRange {
    match rng.below(5) {
        0 | 1 => TimestampRange::ALL,
        2 => TimestampRange { start: timestamp(rng), end: None },
        _ => TimestampRange { start: timestamp(rng), end: Some(timestamp(rng)) },
    }
}

/// An operand of an aggregate cell.
pub fn operand(rng: &mut Rng) -> Operand {
    let operators =
        [Operator::SumInt64, Operator::SumInt64, Operator::MinInt64, Operator::MaxInt64];
    Operand { operator: *rng.pick(&operators), value: rng.next_u64() as i64 >> rng.below(60) }
}

/// A value of up to `bytes_max` bytes, usually short and half compressible, unlike every other.
pub fn value(rng: &mut Rng, bytes_max: usize) -> Vec<u8> {
    let share = match rng.below(20) {
        0 => return Vec::new(),
        1 => return (rng.next_u64() as i64).to_be_bytes().to_vec(),
        2 => bytes_max,
        3..=8 => bytes_max / 4,
        _ => bytes_max / 16,
    };
    let len = rng.index(share.max(1) + 1);
    let mut value = Vec::with_capacity(len + 16);
    while value.len() < len {
        value.extend_from_slice(&rng.next_u64().to_le_bytes());
        value.extend_from_slice(b"the same");
    }
    value.truncate(len);
    value
}
