//! Runs of equal values: the lengths of the runs, and a value for each.

use super::{Encoding, Input, Output};
use super::{decode_node, decode_numbers, encode_child, encode_numbers};
use crate::Error;
use crate::column_type::Width;
use crate::values::{Column, Lane, Values, match_width, repeat};
use arrow_buffer::BooleanBufferBuilder;

pub(super) struct RunLength;

impl Encoding for RunLength {
    fn encode(&self, values: &Values<'_>, to: &mut Output) -> Option<()> {
        let starts: Vec<usize> = match_width!(
            values, Values,
            lanes => starts(lanes.len(), |row| lanes[row] != lanes[row - 1]),
            bits => starts(bits.len(), |row| bits.value(row) != bits.value(row - 1)),
            texts => starts(texts.len(), |row| texts[row] != texts[row - 1])
        );
        if starts.len() > values.len() / 2 {
            return None;
        }
        let ends = starts[1..].iter().copied().chain([values.len()]);
        let lengths = starts.iter().zip(ends).map(|(start, end)| (end - start) as u32).collect();
        to.put_len(starts.len());
        encode_numbers(lengths, to)?;
        let firsts: Vec<_> = starts.iter().map(|start| *start..*start + 1).collect();
        encode_child(&values.pick(&firsts), to)
    }

    fn decode(&self, width: Width, count: usize, from: &mut Input<'_>) -> Result<Column, Error> {
        let (lengths, runs) = lengths_and_values(width, count, from)?;
        Ok(match runs {
            Column::Bits(bits) => {
                let mut out = BooleanBufferBuilder::new(count);
                for (bit, length) in bits.iter().zip(&lengths) {
                    out.append_n(*length as usize, bit);
                }
                Column::Bits(out.finish())
            }
            Column::Two(values) => repeated(&values, &lengths, count),
            Column::Four(values) => repeated(&values, &lengths, count),
            Column::Eight(values) => repeated(&values, &lengths, count),
            Column::Sixteen(values) => repeated(&values, &lengths, count),
            Column::Text(text) => Column::Text(text.repeat(&lengths, count)),
        })
    }

    fn decode_rows(
        &self,
        width: Width,
        count: usize,
        from: &mut Input<'_>,
        rows: &[u32],
    ) -> Result<Column, Error> {
        let (lengths, runs) = lengths_and_values(width, count, from)?;
        let (mut run, mut end) = (0, lengths.first().map_or(0, |length| *length as usize));
        let run_of = |row: &u32| {
            while *row as usize >= end {
                run += 1;
                end += lengths[run] as usize;
            }
            run
        };
        Ok(runs.gather(rows.iter().map(run_of)))
    }
}

/// Returns the rows at which runs begin.
fn starts(rows: usize, begins: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..rows).filter(|row| *row == 0 || begins(*row)).collect()
}

fn repeated<T: Lane>(values: &[T], lengths: &[i32], count: usize) -> Column {
    T::column(repeat(values, lengths, count).into())
}

/// Reads the runs: lengths that are positive and have `count` as their sum, and as many values.
fn lengths_and_values(
    width: Width,
    count: usize,
    from: &mut Input<'_>,
) -> Result<(Vec<i32>, Column), Error> {
    let runs = from.count(count, "number of runs")?;
    let damage = from.damage("lengths of runs");
    let lengths = decode_numbers(runs, from)?;
    let sum: u64 = lengths.iter().map(|length| u64::from(length.cast_unsigned())).sum();
    if sum != count as u64 || lengths.iter().any(|length| *length < 1) {
        return Err(damage);
    }
    let values = decode_node(width, runs, from)?;
    Ok((lengths.to_vec(), values))
}
