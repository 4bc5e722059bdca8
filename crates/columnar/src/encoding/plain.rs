//! Values as they are. Fixed-width values are decoded where they lie, if the body is aligned.

use super::{Encoding, Input, Output};
use crate::Error;
use crate::column_type::Width;
use crate::values::{Column, Lane, Text, Values, aligned};
use arrow_buffer::{BooleanBuffer, Buffer, ToByteSlice};

pub(super) struct Plain;

impl Encoding for Plain {
    fn encode(&self, values: &Values<'_>, to: &mut Output) -> Option<()> {
        match values {
            Values::Bits(bits) => {
                to.align(64);
                put_bits(bits, &mut to.bytes);
            }
            Values::Two(lanes) => put_lanes(lanes, to),
            Values::Four(lanes) => put_lanes(lanes, to),
            Values::Eight(lanes) => put_lanes(lanes, to),
            Values::Sixteen(lanes) => put_lanes(lanes, to),
            Values::Text(texts) => {
                let mut end = 0;
                to.put_len(end);
                for text in texts {
                    end += text.len();
                    to.put_len(end);
                }
                texts.iter().for_each(|text| to.bytes.extend_from_slice(text));
            }
        }
        Some(())
    }

    fn decode(&self, width: Width, count: usize, from: &mut Input<'_>) -> Result<Column, Error> {
        Ok(match width {
            Width::Bits => {
                from.align(64)?;
                Column::Bits(get_bits(count, from)?)
            }
            Width::Two => get_lanes::<i16>(count, from)?,
            Width::Four => get_lanes::<i32>(count, from)?,
            Width::Eight => get_lanes::<i64>(count, from)?,
            Width::Sixteen => get_lanes::<i128>(count, from)?,
            Width::Text { utf8 } => {
                let at = from.at();
                let (ends, data) = offsets_and_data(count, from)?;
                let ends = ends.as_chunks::<4>().0.iter().map(|end| u32::from_le_bytes(*end));
                Column::Text(Text::of(data, ends, utf8, at)?)
            }
        })
    }

    fn decode_rows(
        &self,
        width: Width,
        count: usize,
        from: &mut Input<'_>,
        rows: &[u32],
    ) -> Result<Column, Error> {
        let Width::Text { utf8 } = width else {
            let all = self.decode(width, count, from)?;
            return Ok(all.gather(rows.iter().map(|row| *row as usize)));
        };
        let at = from.at();
        let (ends, data) = offsets_and_data(count, from)?;
        let end = |row: u32| ends.as_chunks::<4>().0.get(row as usize).copied();
        let spans = rows.iter().map(|row| {
            let start = row.checked_sub(1).and_then(end).map_or(0, u32::from_le_bytes);
            (start, end(*row).map_or(0, u32::from_le_bytes))
        });
        Ok(Column::Text(Text::at(&data, spans, utf8, at)?))
    }
}

fn put_lanes<T: Lane>(lanes: &[T], to: &mut Output) {
    to.align(64);
    to.bytes.extend_from_slice(lanes.to_byte_slice());
}

fn get_lanes<T: Lane>(count: usize, from: &mut Input<'_>) -> Result<Column, Error> {
    from.align(64)?;
    Ok(T::column(aligned(from.buffer(count * T::BYTES)?)))
}

/// Appends bits from the lowest one of the first byte on, and zeros to a whole byte.
pub(crate) fn put_bits(bits: &BooleanBuffer, to: &mut Vec<u8>) {
    let sliced = bits.sliced();
    let bytes = bits.len().div_ceil(8);
    to.extend_from_slice(&sliced[..bytes]);
    if let (Some(last), used @ 1..) = (to.last_mut(), bits.len() % 8) {
        *last &= (1 << used) - 1;
    }
}

/// Reads bits; damage if those behind the last one are not zero.
pub(crate) fn get_bits(count: usize, from: &mut Input<'_>) -> Result<BooleanBuffer, Error> {
    let bytes = from.buffer(count.div_ceil(8))?;
    if let (Some(last), used @ 1..) = (bytes.last(), count % 8)
        && last >> used != 0
    {
        return Err(from.damage("bits behind the last value"));
    }
    Ok(BooleanBuffer::new(bytes, 0, count))
}

/// Reads the offsets of text, without the first one, which is 0, and the bytes that they lead into.
fn offsets_and_data<'a>(count: usize, from: &mut Input<'a>) -> Result<(&'a [u8], Buffer), Error> {
    if from.u32()? != 0 {
        return Err(from.damage("first offset of text"));
    }
    let ends = from.bytes(4 * count)?;
    let len = ends.last_chunk::<4>().map_or(0, |end| u32::from_le_bytes(*end));
    Ok((ends, from.buffer(len as usize)?))
}
