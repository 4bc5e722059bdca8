//! Values of one width: as encodings take them ([`Values`]) and as they give them ([`Column`]).
//!
//! 1. Fixed-width values are integers: floats are their bits, 16 bytes a little-endian integer.
//! 2. NULL is not known here. There is a value for each row.

mod input;
mod lane;
mod output;
mod text;

pub(crate) use input::{Prepared, prepare};
pub(crate) use lane::{Lane, aligned, repeat};
pub(crate) use output::array;
pub(crate) use text::Text;

use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use std::ops::Range;

/// Values of rows to encode.
#[derive(Debug, Clone)]
pub(crate) enum Values<'a> {
    Bits(BooleanBuffer),
    Two(ScalarBuffer<i16>),
    Four(ScalarBuffer<i32>),
    Eight(ScalarBuffer<i64>),
    Sixteen(ScalarBuffer<i128>),
    Text(Vec<&'a [u8]>),
}

/// Values of rows that were decoded.
#[derive(Debug, Clone)]
pub(crate) enum Column {
    Bits(BooleanBuffer),
    Two(ScalarBuffer<i16>),
    Four(ScalarBuffer<i32>),
    Eight(ScalarBuffer<i64>),
    Sixteen(ScalarBuffer<i128>),
    Text(Text),
}

/// Evaluates an expression for the lanes of fixed-width values, `$lanes` a slice buffer of them, and others
/// for bits and text.
macro_rules! match_width {
    ($of:expr, $kind:ident, $lanes:ident => $fixed:expr, $bits:ident => $bit:expr, $text:ident => $texts:expr) => {
        match $of {
            $kind::Two($lanes) => $fixed,
            $kind::Four($lanes) => $fixed,
            $kind::Eight($lanes) => $fixed,
            $kind::Sixteen($lanes) => $fixed,
            $kind::Bits($bits) => $bit,
            $kind::Text($text) => $texts,
        }
    };
}
pub(crate) use match_width;

impl<'a> Values<'a> {
    pub(crate) fn len(&self) -> usize {
        match_width!(self, Values, v => v.len(), v => v.len(), v => v.len())
    }

    /// Returns the length of the values as a plain node, without padding.
    pub(crate) fn plain_bytes(&self) -> usize {
        match_width!(
            self, Values,
            v => std::mem::size_of_val(&v[..]),
            v => v.len().div_ceil(8),
            v => 4 * (v.len() + 1) + v.iter().map(|value| value.len()).sum::<usize>()
        )
    }

    /// Returns the values of some ranges of rows, one after the other.
    pub(crate) fn pick(&self, ranges: &[Range<usize>]) -> Self {
        match self {
            Self::Bits(v) => {
                let bits = ranges.iter().flat_map(|range| range.clone().map(|row| v.value(row)));
                Self::Bits(bits.collect())
            }
            Self::Two(v) => Self::Two(pick(v, ranges).into()),
            Self::Four(v) => Self::Four(pick(v, ranges).into()),
            Self::Eight(v) => Self::Eight(pick(v, ranges).into()),
            Self::Sixteen(v) => Self::Sixteen(pick(v, ranges).into()),
            Self::Text(v) => Self::Text(pick(v, ranges)),
        }
    }
}

fn pick<T: Copy>(values: &[T], ranges: &[Range<usize>]) -> Vec<T> {
    ranges.iter().flat_map(|range| &values[range.clone()]).copied().collect()
}

impl Column {
    pub(crate) fn len(&self) -> usize {
        match_width!(self, Column, v => v.len(), v => v.len(), v => v.len())
    }

    /// Returns the values at some rows, each of which must be one of this column.
    pub(crate) fn gather(&self, rows: impl ExactSizeIterator<Item = usize>) -> Self {
        match self {
            Self::Bits(v) => Self::Bits(rows.map(|row| v.value(row)).collect()),
            Self::Two(v) => Self::Two(rows.map(|row| v[row]).collect()),
            Self::Four(v) => Self::Four(rows.map(|row| v[row]).collect()),
            Self::Eight(v) => Self::Eight(rows.map(|row| v[row]).collect()),
            Self::Sixteen(v) => Self::Sixteen(rows.map(|row| v[row]).collect()),
            Self::Text(v) => Self::Text(v.gather(rows)),
        }
    }
}
