//! A dictionary: each different value once, in the order in which they come first, and for each row the
//! place of its value.

use super::{Encoding, Input, Output};
use super::{decode_node, decode_node_rows, decode_numbers, encode_child, encode_numbers, lanes};
use crate::Error;
use crate::column_type::Width;
use crate::values::{Column, Values};
use arrow_buffer::ScalarBuffer;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// Longest text of a dictionary. Values that are longer rarely repeat, and a query that groups by
/// places gains nothing over one that compares them.
const TEXT_BYTES_MAX: usize = 128;
/// Most values of a dictionary.
const VALUES_MAX: usize = 1 << 15;

pub(super) struct Dictionary;

impl Encoding for Dictionary {
    fn encode(&self, values: &Values<'_>, to: &mut Output) -> Option<()> {
        let (codes, firsts) = match values {
            Values::Bits(_) => return None,
            Values::Two(lanes) => codes(lanes),
            Values::Four(lanes) => codes(lanes),
            Values::Eight(lanes) => codes(lanes),
            Values::Sixteen(lanes) => codes(lanes),
            Values::Text(texts) if texts.iter().any(|text| text.len() > TEXT_BYTES_MAX) => None,
            Values::Text(texts) => codes(texts),
        }?;
        to.put_len(firsts.len());
        encode_numbers(codes, to)?;
        let (before, fixed) = (to.len(), to.fixed);
        encode_child(&values.pick(&firsts), to)?;
        to.fixed = fixed + to.len() - before;
        Some(())
    }

    fn decode(&self, width: Width, count: usize, from: &mut Input<'_>) -> Result<Column, Error> {
        let distinct = distinct(width, count, from)?;
        let codes = decode_numbers(count, from)?;
        finish(width, distinct, codes, from)
    }

    fn decode_rows(
        &self,
        width: Width,
        count: usize,
        from: &mut Input<'_>,
        rows: &[u32],
    ) -> Result<Column, Error> {
        let distinct = distinct(width, count, from)?;
        let at = from.at();
        let codes = lanes(decode_node_rows(Width::Four, count, from, rows)?, at)?;
        finish(width, distinct, codes, from)
    }
}

/// Returns the place of each value and the rows where values come first; `None` if they do not repeat enough.
fn codes<T: Hash + Eq + Copy>(values: &[T]) -> Option<(Vec<u32>, Vec<Range<usize>>)> {
    let limit = VALUES_MAX.min(values.len() / 2);
    let mut places: HashMap<T, u32, RandomState> = HashMap::default();
    let mut firsts = Vec::new();
    let mut codes = Vec::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        // Equal neighbours are common, and looked up only once.
        if row > 0 && values[row - 1] == *value {
            codes.push(codes[row - 1]);
            continue;
        }
        let code = *places.entry(*value).or_insert_with(|| {
            firsts.push(row..row + 1);
            firsts.len() as u32 - 1
        });
        if firsts.len() > limit {
            return None;
        }
        codes.push(code);
    }
    Some((codes, firsts))
}

fn distinct(width: Width, count: usize, from: &mut Input<'_>) -> Result<usize, Error> {
    if width == Width::Bits {
        return Err(from.damage("dictionary of bits"));
    }
    from.count(count, "number of different values")
}

/// Reads the values and puts them in the places of their codes.
fn finish(
    width: Width,
    distinct: usize,
    codes: ScalarBuffer<i32>,
    from: &mut Input<'_>,
) -> Result<Column, Error> {
    let damage = from.damage("code of a value that is not in the dictionary");
    let largest = codes.iter().fold(0, |max, code| max.max(code.cast_unsigned()));
    if largest as usize >= distinct {
        return Err(damage);
    }
    let values = decode_node(width, distinct, from)?;
    Ok(values.gather(codes.iter().map(|code| code.cast_unsigned() as usize)))
}
