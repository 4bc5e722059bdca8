//! Delta: the first value, and bit-packed differences between neighbours, less the smallest one of them.
//!
//! For sorted values and those at regular distances. Differences are taken modulo 2 to the number of bits of
//! a value, as in a frame of reference, which also makes a zigzag needless: the smallest difference
//! is the base, so what is packed is not negative.

use super::frame::{base_and_bits, get_packed, put_packed};
use super::{Encoding, Input, Output, unpack};
use crate::Error;
use crate::column_type::Width;
use crate::values::{Column, Lane, Values, match_width};

pub(super) struct Delta;

impl Encoding for Delta {
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
                Err(from.damage("delta of values without a fixed width"))
            }
        }
    }
}

/// Appends first value, base and differences; `None` for one value, and if the differences do not fit
/// in 64 bits.
fn encode<T: Lane>(values: &[T], to: &mut Output) -> Option<()> {
    let differences: Vec<T> = values.windows(2).map(|pair| pair[1].minus(pair[0])).collect();
    let (base, bits) = base_and_bits(&differences)?;
    values[0].put(&mut to.bytes);
    base.put(&mut to.bytes);
    put_packed(differences.into_iter(), base, bits, to);
    Some(())
}

fn decode<T: Lane>(count: usize, from: &mut Input<'_>) -> Result<Column, Error> {
    let mut last = T::get(from.bytes(T::BYTES)?);
    let base = T::get(from.bytes(T::BYTES)?);
    let (bits, packed) = get_packed::<T>(count - 1, from)?;
    let mut values: Vec<T> = Vec::with_capacity(count);
    values.push(last);
    unpack(packed, bits, count - 1, |block| {
        values.extend(block.iter().map(|number| {
            last = last.plus(base).plus(T::of_number(*number));
            last
        }));
    });
    Ok(T::column(values.into()))
}
