//! Filter trees.

use super::{Frame, NESTING_MAX, Result, Wire, WireError};
use crate::filter::{ColumnRange, Condition, RowFilter, ValueRange};
use crate::subset::Subset;
use base::codec::PutBytes;
use bytes::Bytes;
use engine::RowRange;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Wire for RowFilter {
    fn put(&self, out: &mut Vec<u8>) {
        let mut tagged = |tag: u8, value: &dyn Fn(&mut Vec<u8>)| {
            out.push(tag);
            value(out);
        };
        let number = |number: &i32| i64::from(*number);
        match self {
            Self::Chain(filters) => tagged(1, &|out| filters.put(out)),
            Self::Interleave(filters) => tagged(2, &|out| filters.put(out)),
            Self::Condition(condition) => tagged(3, &|out| condition.put(out)),
            Self::Sink => out.push(4),
            Self::Within(subset, filter) => tagged(5, &|out| {
                subset.put(out);
                filter.put(out);
            }),
            Self::PassAll => out.push(6),
            Self::BlockAll => out.push(7),
            Self::RowKeyRegex(pattern) => tagged(8, &|out| pattern.put(out)),
            Self::RowSample(share) => tagged(9, &|out| out.put_u64(share.to_bits())),
            Self::FamilyNameRegex(pattern) => tagged(10, &|out| pattern.put(out)),
            Self::ColumnQualifierRegex(pattern) => tagged(11, &|out| pattern.put(out)),
            Self::ColumnRange(range) => tagged(12, &|out| range.put(out)),
            Self::TimestampRange(range) => tagged(13, &|out| range.put(out)),
            Self::ValueRegex(pattern) => tagged(14, &|out| pattern.put(out)),
            Self::ValueRange(range) => tagged(15, &|out| range.put(out)),
            Self::CellsPerRowOffset(cells) => tagged(16, &|out| number(cells).put(out)),
            Self::CellsPerRowLimit(cells) => tagged(17, &|out| number(cells).put(out)),
            Self::CellsPerColumnLimit(cells) => tagged(18, &|out| number(cells).put(out)),
            Self::StripValue => out.push(19),
            Self::ApplyLabel(label) => tagged(20, &|out| label.put(out)),
        }
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        frame.depth += 1;
        if frame.depth > NESTING_MAX {
            return Err(WireError::TooMuch("its filter nests too deeply"));
        }
        let filter = read_one(frame)?;
        frame.depth -= 1;
        Ok(filter)
    }
}

/// The filter of the next bytes; the caller has counted its depth.
fn read_one(frame: &mut Frame<'_>) -> Result<RowFilter> {
    use RowFilter as F;
    Ok(match frame.u8("filter")? {
        1 => F::Chain(Wire::read(frame)?),
        2 => F::Interleave(Wire::read(frame)?),
        3 => F::Condition(Box::new(Wire::read(frame)?)),
        4 => F::Sink,
        5 => F::Within(Arc::new(Wire::read(frame)?), Box::new(Wire::read(frame)?)),
        6 => F::PassAll,
        7 => F::BlockAll,
        8 => F::RowKeyRegex(Wire::read(frame)?),
        9 => F::RowSample(f64::from_bits(frame.reader.u64("share")?)),
        10 => F::FamilyNameRegex(Wire::read(frame)?),
        11 => F::ColumnQualifierRegex(Wire::read(frame)?),
        12 => F::ColumnRange(Wire::read(frame)?),
        13 => F::TimestampRange(Wire::read(frame)?),
        14 => F::ValueRegex(Wire::read(frame)?),
        15 => F::ValueRange(Wire::read(frame)?),
        16 => F::CellsPerRowOffset(cells(frame)?),
        17 => F::CellsPerRowLimit(cells(frame)?),
        18 => F::CellsPerColumnLimit(cells(frame)?),
        19 => F::StripValue,
        20 => F::ApplyLabel(Wire::read(frame)?),
        _ => return Err(WireError::Invalid("filter")),
    })
}

fn cells(frame: &mut Frame<'_>) -> Result<i32> {
    i32::try_from(frame.i64("cells")?).map_err(|_| WireError::Invalid("number of cells"))
}

impl Wire for Condition {
    fn put(&self, out: &mut Vec<u8>) {
        self.predicate.put(out);
        self.on_true.put(out);
        self.on_false.put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(Self {
            predicate: Wire::read(frame)?,
            on_true: Wire::read(frame)?,
            on_false: Wire::read(frame)?,
        })
    }
}

impl Wire for ColumnRange {
    fn put(&self, out: &mut Vec<u8>) {
        self.family.put(out);
        self.start.put(out);
        self.end.put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(Self { family: Wire::read(frame)?, start: Wire::read(frame)?, end: Wire::read(frame)? })
    }
}

impl Wire for ValueRange {
    fn put(&self, out: &mut Vec<u8>) {
        self.start.put(out);
        self.end.put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(Self { start: Wire::read(frame)?, end: Wire::read(frame)? })
    }
}

impl Wire for RowRange {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_string(&self.start);
        self.end.as_ref().map(|end| Bytes::copy_from_slice(end)).put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        let start = frame.string("start of a range")?.to_vec();
        let end = Option::<Bytes>::read(frame)?.map(|end| end.to_vec());
        Ok(Self { start, end })
    }
}

impl Wire for Subset {
    fn put(&self, out: &mut Vec<u8>) {
        let (rows, families) = self.parts();
        rows.put(out);
        out.put_varint(families.len() as u64);
        for (family, ranges) in families {
            family.put(out);
            ranges.put(out);
        }
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        let rows = Wire::read(frame)?;
        let mut families = BTreeMap::new();
        for _ in 0..frame.u64("families")? {
            frame.item()?;
            families.insert(Wire::read(frame)?, Wire::read(frame)?);
        }
        Ok(Self::of_parts(rows, families))
    }
}
