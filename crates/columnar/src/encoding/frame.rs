//! Frame of reference: the smallest value, and bit-packed distances from it.
//!
//! Distances are taken modulo 2 to the number of bits of a value, so the span from the smallest integer
//! to the largest one fits.

use super::{Encoding, Input, Output, pack, packed_bytes, unpack, unpack_one};
use crate::Error;
use crate::column_type::Width;
use crate::values::{Column, Lane, Values, match_width};

pub(super) struct Frame;

impl Encoding for Frame {
    fn encode(&self, values: &Values<'_>, to: &mut Output) -> Option<()> {
        match_width!(values, Values, lanes => encode(lanes, to), _bits => None, _texts => None)
    }

    fn decode(&self, width: Width, count: usize, from: &mut Input<'_>) -> Result<Column, Error> {
        match width {
            Width::Two => decode::<i16>(count, from),
            Width::Four => decode::<i32>(count, from),
            Width::Eight => decode::<i64>(count, from),
            Width::Sixteen => decode::<i128>(count, from),
            Width::Bits | Width::Text { .. } => {
                Err(from.damage("frame of values without a fixed width"))
            }
        }
    }

    fn decode_rows(
        &self,
        width: Width,
        count: usize,
        from: &mut Input<'_>,
        rows: &[u32],
    ) -> Result<Column, Error> {
        match width {
            Width::Two => decode_rows::<i16>(count, from, rows),
            Width::Four => decode_rows::<i32>(count, from, rows),
            Width::Eight => decode_rows::<i64>(count, from, rows),
            Width::Sixteen => decode_rows::<i128>(count, from, rows),
            Width::Bits | Width::Text { .. } => {
                Err(from.damage("frame of values without a fixed width"))
            }
        }
    }
}

/// Appends base, number of bits and distances from the base; `None` if they do not fit in 64 bits.
fn encode<T: Lane>(values: &[T], to: &mut Output) -> Option<()> {
    let (base, bits) = base_and_bits(values)?;
    base.put(&mut to.bytes);
    put_packed(values.iter().copied(), base, bits, to);
    Some(())
}

/// Returns the smallest value and the bits of the largest distance from it, if that has at most 64.
pub(super) fn base_and_bits<T: Lane>(values: &[T]) -> Option<(T, u32)> {
    let first = *values.first()?;
    let span = values.iter().fold((first, first), |(min, max), v| (min.min(*v), max.max(*v)));
    let largest = span.1.minus(span.0).number()?;
    Some((span.0, u64::BITS - largest.leading_zeros()))
}

/// Appends the number of bits and the packed distances of values from a base.
pub(super) fn put_packed<T: Lane>(
    values: impl Iterator<Item = T>,
    base: T,
    bits: u32,
    to: &mut Output,
) {
    to.put_u8(bits as u8);
    to.align(8);
    pack(values.map(|value| value.minus(base).number().unwrap_or(0)), bits, &mut to.bytes);
}

/// Reads a number of bits and so many packed numbers.
pub(super) fn get_packed<'a, T: Lane>(
    count: usize,
    from: &mut Input<'a>,
) -> Result<(u32, &'a [u8]), Error> {
    let damage = from.damage("bits of packed numbers");
    let bits = u32::from(from.u8()?);
    if bits > T::PACKED_BITS_MAX {
        return Err(damage);
    }
    from.align(8)?;
    Ok((bits, from.bytes(packed_bytes(count, bits))?))
}

fn decode<T: Lane>(count: usize, from: &mut Input<'_>) -> Result<Column, Error> {
    let base = T::get(from.bytes(T::BYTES)?);
    let (bits, packed) = get_packed::<T>(count, from)?;
    let mut values: Vec<T> = Vec::with_capacity(count);
    unpack(packed, bits, count, |block| {
        values.extend(block.iter().map(|number| base.plus(T::of_number(*number))));
    });
    Ok(T::column(values.into()))
}

fn decode_rows<T: Lane>(count: usize, from: &mut Input<'_>, rows: &[u32]) -> Result<Column, Error> {
    let base = T::get(from.bytes(T::BYTES)?);
    let (bits, packed) = get_packed::<T>(count, from)?;
    let number = |row: &u32| T::of_number(unpack_one(packed, bits, *row as usize));
    let values: Vec<T> = rows.iter().map(|row| base.plus(number(row))).collect();
    Ok(T::column(values.into()))
}
