//! The cell of a row: the values that are not in its key.
//!
//! ```text
//! cell  := version u8 = 1 · field{…}
//! field := (number - number of the field before) << 3 | kind, as a varint · bytes of the kind
//! ```
//!
//! 1. Fields ascend by the numbers of their columns, so a column that was added or dropped later changes
//!    no cell. A column without a field has the value that it was added with, which is NULL for most.
//! 2. NULL has a field only if the column was added with another value.

use super::row_value::{Kind, damaged, put_value, read_value, wrong};
use crate::catalog::{Column, Layout, StoredColumn};
use crate::error::Result;
use crate::types::Value;
use base::codec::{ByteReader, PutBytes};

/// First byte of every cell.
const VERSION: u8 = 1;

/// Returns the cell of a row, whose values stand in the order of `columns`.
pub fn encode_row(layout: &Layout, columns: &[Column], row: &[Value]) -> Vec<u8> {
    let mut cell = Vec::with_capacity(16 + 8 * row.len());
    cell.push(VERSION);
    let mut before = 0;
    for stored in layout.stored.iter().filter(|stored| stored.in_cell) {
        let value = &row[stored.place];
        if value.is_null() && columns[stored.place].missing.is_null() {
            continue;
        }
        let distance = (stored.number - before) as u64;
        cell.put_varint(distance << 3 | Kind::of(value) as u64);
        put_value(&mut cell, value);
        before = stored.number;
    }
    cell
}

/// Sets the values of a row that its cell has. `places` tells for each column the place in `row`, or
/// nothing for a column that is not wanted. Columns of the key are left as they are.
///
/// XX001 if the cell is damaged, or has a value of another type than its column.
pub fn decode_row(
    cell: &[u8],
    layout: &Layout,
    columns: &[Column],
    places: impl Fn(usize) -> Option<usize>,
    row: &mut [Value],
) -> Result<()> {
    let mut reader = ByteReader::new(cell);
    let version = reader.u8("version").map_err(damaged)?;
    if version != VERSION {
        return Err(wrong("a version that this Stele does not know"));
    }
    let mut stored = layout.stored.iter();
    let mut number = 0i16;
    while !reader.is_empty() {
        let header = reader.varint("field").map_err(damaged)?;
        let next = i64::from(number).checked_add_unsigned(header >> 3);
        let next = next.and_then(|next| i16::try_from(next).ok()).filter(|next| *next > number);
        number = next.ok_or_else(|| wrong("the number of a column"))?;
        let kind = Kind::from_bits(header);
        let mut column = None;
        for candidate in stored.by_ref() {
            if candidate.number >= number {
                column = Some(candidate);
                break;
            }
            set_missing(candidate, columns, &places, row);
        }
        match column {
            // A column that was dropped: the candidate comes again.
            Some(found) if found.number > number => {
                stored = after(layout, number);
                kind.skip(&mut reader).map_err(damaged)?;
            }
            Some(found) => match places(found.place).filter(|_| found.in_cell) {
                Some(place) => {
                    let data_type = &columns[found.place].data_type;
                    row[place] = read_value(&mut reader, kind, data_type)?;
                }
                None => kind.skip(&mut reader).map_err(damaged)?,
            },
            None => kind.skip(&mut reader).map_err(damaged)?,
        }
    }
    stored.for_each(|candidate| set_missing(candidate, columns, &places, row));
    Ok(())
}

/// Returns the columns whose numbers are above `number`.
fn after(layout: &Layout, number: i16) -> std::slice::Iter<'_, StoredColumn> {
    let first = layout.stored.partition_point(|stored| stored.number <= number);
    layout.stored[first..].iter()
}

fn set_missing(
    stored: &StoredColumn,
    columns: &[Column],
    places: &impl Fn(usize) -> Option<usize>,
    row: &mut [Value],
) {
    if stored.in_cell
        && let Some(place) = places(stored.place)
    {
        row[place] = columns[stored.place].missing.clone();
    }
}

#[cfg(test)]
mod tests;
