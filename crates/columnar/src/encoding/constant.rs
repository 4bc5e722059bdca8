//! One value that all rows have.

use super::{Encoding, Input, Output};
use crate::Error;
use crate::column_type::Width;
use crate::values::{Column, Lane, Text, Values, match_width};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};

pub(super) struct Constant;

impl Encoding for Constant {
    fn encode(&self, values: &Values<'_>, to: &mut Output) -> Option<()> {
        let before = to.len();
        match_width!(
            values, Values,
            lanes => put(all_equal(lanes)?, to),
            bits => {
                let ones = bits.count_set_bits();
                if ones != 0 && ones != bits.len() {
                    return None;
                }
                to.put_u8(u8::from(ones != 0));
            },
            texts => {
                let text = all_equal(texts)?;
                to.put_len(text.len());
                to.bytes.extend_from_slice(text);
            }
        );
        to.fixed += to.len() - before;
        Some(())
    }

    fn decode(&self, width: Width, count: usize, from: &mut Input<'_>) -> Result<Column, Error> {
        Ok(match width {
            Width::Bits => match from.u8()? {
                0 => Column::Bits(BooleanBuffer::new_unset(count)),
                1 => Column::Bits(BooleanBuffer::new_set(count)),
                _ => return Err(from.damage("a constant bit that is neither 0 nor 1")),
            },
            Width::Two => get::<i16>(count, from)?,
            Width::Four => get::<i32>(count, from)?,
            Width::Eight => get::<i64>(count, from)?,
            Width::Sixteen => get::<i128>(count, from)?,
            Width::Text { utf8 } => {
                let len = from.u32()?;
                let at = from.at();
                let data = from.buffer(len as usize)?;
                let one = Text::of(data, [len].into_iter(), utf8, at)?;
                Column::Text(one.gather(std::iter::repeat_n(0, count)))
            }
        })
    }

    fn decode_rows(
        &self,
        width: Width,
        _count: usize,
        from: &mut Input<'_>,
        rows: &[u32],
    ) -> Result<Column, Error> {
        self.decode(width, rows.len(), from)
    }
}

fn all_equal<T: Copy + PartialEq>(values: &[T]) -> Option<T> {
    let (first, rest) = values.split_first()?;
    rest.iter().all(|value| value == first).then_some(*first)
}

fn put<T: Lane>(value: T, to: &mut Output) {
    value.put(&mut to.bytes);
}

fn get<T: Lane>(count: usize, from: &mut Input<'_>) -> Result<Column, Error> {
    let value = T::get(from.bytes(T::BYTES)?);
    Ok(T::column(ScalarBuffer::from(vec![value; count])))
}
