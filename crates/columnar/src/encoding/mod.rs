//! Encodings of values: one trait, a file for each.
//!
//! 1. An encoding writes a node: its tag into the tree, its bytes into the body, then its children. It
//!    reads the same in the same order, and ends where the node ends, also when it decodes some rows
//!    only.
//! 2. Nodes have at most [`TREE_TAGS_MAX`] tags, so reading goes no deeper.
//! 3. What is decoded has exactly the count of values that was asked for.

mod bit_packing;
mod body;
mod constant;
mod delta;
mod dictionary;
mod frame;
mod fsst;
mod plain;
mod run_length;

use bit_packing::unpack_one;
pub(crate) use bit_packing::{BLOCK, pack, packed_bytes, unpack};
pub(crate) use body::{Input, Output};
pub(crate) use plain::{get_bits, put_bits};

use crate::Error;
use crate::column_type::Width;
use crate::values::{Column, Lane, Values};
use arrow_buffer::ScalarBuffer;
use std::fmt;

/// Most tags of a tree.
pub(crate) const TREE_TAGS_MAX: usize = 8;

/// An encoding. The byte on disk is frozen: docs/format/column_segment.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EncodingKind {
    /// All values as they are.
    Plain = 1,
    /// One value that all rows have.
    Constant = 2,
    /// Each run of equal values once, and its length.
    RunLength = 3,
    /// Each different value once, and for each row its place there. Not for long text.
    Dictionary = 4,
    /// The smallest value, and bit-packed distances from it. Fixed width only.
    Frame = 5,
    /// Bit-packed differences between neighbours. Fixed width only.
    Delta = 6,
    /// Text in codes for frequent strings of up to eight bytes.
    Fsst = 7,
}

impl EncodingKind {
    /// All encodings, in order of their bytes.
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::Constant,
        Self::RunLength,
        Self::Dictionary,
        Self::Frame,
        Self::Delta,
        Self::Fsst,
    ];

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }

    pub(crate) fn encoding(self) -> &'static dyn Encoding {
        match self {
            Self::Plain => &plain::Plain,
            Self::Constant => &constant::Constant,
            Self::RunLength => &run_length::RunLength,
            Self::Dictionary => &dictionary::Dictionary,
            Self::Frame => &frame::Frame,
            Self::Delta => &delta::Delta,
            Self::Fsst => &fsst::Fsst,
        }
    }
}

impl fmt::Display for EncodingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Constant => "constant",
            Self::RunLength => "run length",
            Self::Dictionary => "dictionary",
            Self::Frame => "frame",
            Self::Delta => "delta",
            Self::Fsst => "fsst",
        })
    }
}

/// Writes and reads nodes of one tag.
pub(crate) trait Encoding: Sync {
    /// Appends a node with these values, at least one, without its tag. Returns `None` if they do not
    /// suit this encoding; then what it appended has no meaning.
    fn encode(&self, values: &Values<'_>, to: &mut Output) -> Option<()>;

    /// Reads a node of `count` values, at least one, whose tag was read.
    fn decode(&self, width: Width, count: usize, from: &mut Input<'_>) -> Result<Column, Error>;

    /// Reads a node as [`Self::decode`] does, and returns the values of some rows, which ascend and are
    /// below `count`.
    fn decode_rows(
        &self,
        width: Width,
        count: usize,
        from: &mut Input<'_>,
        rows: &[u32],
    ) -> Result<Column, Error> {
        let all = self.decode(width, count, from)?;
        Ok(all.gather(rows.iter().map(|row| *row as usize)))
    }
}

/// Appends a node of this encoding. Returns `None`, and leaves `to` as it was, if the values do not suit it.
pub(crate) fn encode_as(kind: EncodingKind, values: &Values<'_>, to: &mut Output) -> Option<()> {
    let mark = to.mark();
    let done = to.begin(kind).and_then(|()| kind.encoding().encode(values, to));
    if done.is_none() {
        to.rewind(mark);
    }
    done
}

/// Appends a node of one of `kinds`, the shortest that suits, and of equal ones the first.
fn encode_shortest(kinds: &[EncodingKind], values: &Values<'_>, to: &mut Output) -> Option<()> {
    let mut best: Option<Output> = None;
    for &kind in kinds {
        let mut tried = to.child();
        if encode_as(kind, values, &mut tried).is_some()
            && best.as_ref().is_none_or(|best| tried.len() < best.len())
        {
            best = Some(tried);
        }
    }
    to.append(best?);
    Some(())
}

/// Appends a child with numbers. Of the tags of a tree, eight at most, this and [`encode_child`] use at most
/// six, since only a child of the first node has runs.
fn encode_numbers(numbers: Vec<u32>, to: &mut Output) -> Option<()> {
    use EncodingKind::{Constant, Frame, RunLength};
    let numbers: ScalarBuffer<i32> = numbers.into_iter().map(u32::cast_signed).collect();
    let runs = 1 + numbers.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let values = Values::Four(numbers);
    if runs == 1 {
        return encode_as(Constant, &values, to);
    }
    if runs * 4 < values.len() && to.below_root() {
        return encode_shortest(&[Frame, RunLength], &values, to);
    }
    encode_as(Frame, &values, to)
}

/// Appends a child with values of the same width as its parent's.
fn encode_child(values: &Values<'_>, to: &mut Output) -> Option<()> {
    use EncodingKind::{Constant, Delta, Frame, Fsst, Plain};
    match values {
        Values::Bits(_) => encode_as(Plain, values, to),
        Values::Text(_) if values.plain_bytes() < FSST_CHILD_BYTES_MIN => {
            encode_as(Plain, values, to)
        }
        Values::Text(_) => encode_shortest(&[Plain, Fsst], values, to),
        _ => encode_shortest(&[Constant, Plain, Frame, Delta], values, to),
    }
}

/// Text of a child is not worth a symbol table below this.
const FSST_CHILD_BYTES_MIN: usize = 16 << 10;

/// Reads a node, its tag first.
pub(crate) fn decode_node(
    width: Width,
    count: usize,
    from: &mut Input<'_>,
) -> Result<Column, Error> {
    let kind = from.begin()?;
    let column = kind.encoding().decode(width, count, from)?;
    assert_eq!(column.len(), count, "{kind} gives the count that was asked for");
    Ok(column)
}

/// Reads a node, its tag first, and returns the values of some rows, which ascend and are below `count`.
pub(crate) fn decode_node_rows(
    width: Width,
    count: usize,
    from: &mut Input<'_>,
    rows: &[u32],
) -> Result<Column, Error> {
    let kind = from.begin()?;
    let column = kind.encoding().decode_rows(width, count, from, rows)?;
    assert_eq!(column.len(), rows.len(), "{kind} gives the rows that were asked for");
    Ok(column)
}

/// Reads a child with numbers.
fn decode_numbers(count: usize, from: &mut Input<'_>) -> Result<ScalarBuffer<i32>, Error> {
    let at = from.at();
    lanes(decode_node(Width::Four, count, from)?, at)
}

/// Returns the values of a column that was read with a fixed width.
fn lanes<T: Lane>(column: Column, at: usize) -> Result<ScalarBuffer<T>, Error> {
    T::of_column(column).ok_or(Error::corrupt("values of another width", at))
}
