//! Blocks of whole records, cut from a stream.

use crate::build::PADDING;
use crate::error::Error;
use crate::options::Format;

/// The way in which lines end. The first line of the data decides for all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineEnd {
    /// A newline, as on Unix.
    #[default]
    Lf,
    /// A carriage return, as on old Macs.
    Cr,
    /// Both of them, the newline last.
    CrLf,
}

impl LineEnd {
    /// Returns the first byte of a line end.
    pub(crate) fn first(self) -> u8 {
        if self == Self::Lf { b'\n' } else { b'\r' }
    }

    /// Returns the last byte of a line end.
    pub(crate) fn last(self) -> u8 {
        if self == Self::Cr { b'\r' } else { b'\n' }
    }

    /// Returns the number of its bytes.
    pub(crate) fn len(self) -> usize {
        1 + usize::from(self == Self::CrLf)
    }
}

/// Returns whether an odd number of backslashes ends the data.
#[inline]
pub(crate) fn is_escaped(before: &[u8]) -> bool {
    before.last() == Some(&b'\\')
        && before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Returns the number of lines that end in data of text or CSV, as PostgreSQL counts them. Escaped line
/// ends of text are no lines. In quotes of CSV, the first byte of the line end ends one.
pub(crate) fn count_lines(data: &[u8], format: Format, line_end: LineEnd) -> u64 {
    let count = match format {
        Format::Csv => memchr::memchr_iter(line_end.first(), data).count(),
        _ => {
            let ends = memchr::memchr_iter(line_end.last(), data);
            ends.filter(|end| !is_escaped(&data[..*end])).count()
        }
    };
    count as u64
}

/// Whole records of a stream in their order, without a mark of the end. Only the last record of a stream
/// may lack its line end. A block can be parsed by any [`Parser`](crate::Parser) of the same options.
///
/// A parser takes records from its front, so a block may be shared out to several batches.
#[derive(Debug)]
pub struct Block {
    /// The data, then [`PADDING`] zero bytes.
    bytes: Vec<u8>,
    /// Number of bytes that were parsed.
    pub(crate) at: usize,
    /// Line of the first record, or the number of the first row of binary data.
    first_line: u64,
    /// Rows of binary data that were parsed.
    pub(crate) rows_done: u64,
    pub(crate) format: Format,
    pub(crate) line_end: LineEnd,
    /// True if the block begins with names of columns.
    pub(crate) has_header: bool,
    /// Problem of the bytes behind `sound`, once they were looked at.
    pub(crate) checked: Option<Checked>,
}

/// Findings about the bytes of a block before its records are parsed.
#[derive(Debug)]
pub(crate) struct Checked {
    /// Whole records before this place are UTF-8 without zeros.
    pub(crate) sound: usize,
    /// The problem of the record behind them.
    pub(crate) problem: Option<Error>,
    /// True if a byte of another line end is there, so that each record must be looked at.
    pub(crate) has_strays: bool,
}

impl Block {
    pub(crate) fn new(
        mut bytes: Vec<u8>,
        first_line: u64,
        format: Format,
        line_end: LineEnd,
        has_header: bool,
    ) -> Self {
        bytes.extend_from_slice(&[0; PADDING]);
        Self { bytes, at: 0, first_line, rows_done: 0, format, line_end, has_header, checked: None }
    }

    /// Returns the line of the first record of the block as it was cut, from 1.
    pub fn first_line(&self) -> u64 {
        self.first_line
    }

    /// Returns the number of bytes that are still to be parsed.
    pub fn len(&self) -> usize {
        self.data().len() - self.at
    }

    /// Returns whether all records were parsed, and the header. Data without any line has a block of no
    /// bytes for HEADER MATCH to refuse.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && !self.has_header
    }

    /// Returns all data of the block.
    pub(crate) fn data(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - PADDING]
    }

    /// Returns all data and [`PADDING`] zeros behind it.
    pub(crate) fn padded(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the line at a place of the data.
    pub(crate) fn line_at(&self, at: usize) -> u64 {
        self.first_line + count_lines(&self.data()[..at], self.format, self.line_end)
    }
}
