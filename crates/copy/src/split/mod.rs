//! Cuts the stream of a COPY into blocks of whole records.
//!
//! 1. Pieces may be cut anywhere; the blocks are the same however they are.
//! 2. A byte is looked at a fixed number of times: a search goes on where the last one ended.
//! 3. At most a block, or a record that is longer, is kept. A record longer than the limit is 54000 before
//!    more of it is taken. Memory follows what has arrived: no length field allocates.
//! 4. Records before a problem are given before the problem.
//! 5. Behind the mark of the end, text is ignored and binary data is refused.

mod binary;
mod csv;
mod line_end;
mod text;

pub(crate) use binary::SIGNATURE;
pub(crate) use csv::Quotes;

use crate::block::{Block, LineEnd, count_lines};
use crate::error::{Error, Result, State};
use crate::options::{Format, Header, Options};
use binary::BinaryCutter;
use csv::CsvCutter;
use text::TextCutter;

/// Message of a mark of the end before another line end.
const OTHER_LINE_END: &str = "end-of-copy marker does not match previous newline style";

/// Sizes of what a [`Splitter`] gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a block, unless its first record is longer. Larger blocks cost caches, smaller ones cost
    /// calls.
    pub block_bytes: usize,
    /// Longest record, at most 1 GiB.
    pub record_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { block_bytes: 256 << 10, record_bytes_max: 1 << 30 }
    }
}

/// Result of a search for the end of records.
enum Cut {
    /// The records before this place are whole.
    At(usize),
    /// More data must come first.
    More,
    /// The data ends here; the second place is behind the mark of the end.
    End(usize, usize),
    /// The records before this place are whole, and the next one is wrong.
    Wrong(usize, Error),
}

/// Searches for the end of records.
trait Cutter: Send {
    /// Searches the data, which begins with a record and has grown since the last call. With `is_last` no
    /// more comes.
    fn cut(&mut self, data: &[u8], is_last: bool) -> Cut;

    /// Takes notice that so many bytes at the front are gone.
    fn shift(&mut self, len: usize);

    /// Returns how lines end, as far as it is known.
    fn line_end(&self) -> LineEnd {
        LineEnd::Lf
    }

    /// Returns the number of bytes at the front of the data that are no record.
    fn head(&self) -> usize {
        0
    }

    /// Returns the number of records that the next cut begins with, of formats without lines.
    fn rows(&self) -> Option<u64> {
        None
    }
}

/// Cuts a stream into blocks. After an error nothing more can be cut.
pub struct Splitter {
    cutter: Box<dyn Cutter>,
    limits: Limits,
    format: Format,
    header: Header,
    /// True before the first block.
    is_first: bool,
    buffer: Vec<u8>,
    /// Line of the first byte of the buffer.
    line: u64,
    /// Length of the buffer at which it is searched next.
    goal: usize,
    is_ended: bool,
    problem: Option<Error>,
}

impl Splitter {
    /// Returns a splitter of records with `columns` fields, which only binary data needs to know.
    /// Refuses options that contradict each other.
    pub fn new(options: &Options, columns: usize, limits: Limits) -> Result<Self> {
        options.check()?;
        let record_bytes_max = limits.record_bytes_max.clamp(1, 1 << 30);
        let block_bytes = limits.block_bytes.clamp(1, record_bytes_max);
        let cutter: Box<dyn Cutter> = match options.format {
            Format::Text => Box::new(TextCutter::new()),
            Format::Csv => Box::new(CsvCutter::new(options)),
            Format::Binary => Box::new(BinaryCutter::new(columns, record_bytes_max)),
        };
        Ok(Self {
            cutter,
            limits: Limits { block_bytes, record_bytes_max },
            format: options.format,
            header: options.header,
            is_first: true,
            buffer: Vec::new(),
            line: 1,
            goal: block_bytes,
            is_ended: false,
            problem: None,
        })
    }

    /// Takes data from the front of `piece`, until all is taken or a block is whole. Call it until the
    /// piece is empty.
    pub fn push(&mut self, piece: &mut &[u8]) -> Result<Option<Block>> {
        while !piece.is_empty() {
            self.check()?;
            if self.is_ended {
                return self.behind_end(piece);
            }
            let len = piece.len().min(self.goal - self.buffer.len());
            let (taken, rest) = piece.split_at(len);
            *piece = rest;
            self.buffer.extend_from_slice(taken);
            if self.buffer.len() == self.goal
                && let Some(block) = self.cut(false)?
            {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Takes the end of the data. Call it until there are no more blocks.
    pub fn finish(&mut self) -> Result<Option<Block>> {
        self.check()?;
        if self.is_ended {
            return Ok(None);
        }
        let block = self.cut(true)?;
        if block.is_none() {
            self.check()?;
            self.is_ended = true;
            return Ok(self.missing_header());
        }
        Ok(block)
    }

    fn check(&self) -> Result<()> {
        self.problem.clone().map_or(Ok(()), Err)
    }

    fn behind_end(&mut self, piece: &mut &[u8]) -> Result<Option<Block>> {
        if self.format == Format::Binary {
            return self.fail(Error::format("received copy data after EOF marker"));
        }
        *piece = &[];
        Ok(None)
    }

    fn fail(&mut self, error: Error) -> Result<Option<Block>> {
        self.problem = Some(error.clone());
        self.buffer = Vec::new();
        Err(error)
    }

    fn cut(&mut self, is_last: bool) -> Result<Option<Block>> {
        match self.cutter.cut(&self.buffer, is_last) {
            Cut::At(0) => Ok(None),
            Cut::At(place) => Ok(self.take(place)),
            Cut::More => self.wait(),
            Cut::End(place, behind) => {
                let has_more = behind < self.buffer.len();
                let block = self.take(place);
                self.is_ended = true;
                self.buffer = Vec::new();
                if has_more && self.format == Format::Binary {
                    self.problem = Some(Error::format("received copy data after EOF marker"));
                }
                Ok(block.or_else(|| self.missing_header()))
            }
            Cut::Wrong(place, error) => {
                let block = self.take(place);
                let error = error.at_line(self.line);
                if block.is_none() {
                    return self.fail(error);
                }
                self.problem = Some(error);
                Ok(block)
            }
        }
    }

    /// Waits for more data of a record.
    fn wait(&mut self) -> Result<Option<Block>> {
        let max = self.limits.record_bytes_max;
        if self.buffer.len() > max {
            let message = format!("a record has more than {max} bytes");
            let error = Error::new(State::PROGRAM_LIMIT_EXCEEDED, message);
            let line = self.line;
            return self.fail(error.at_line(line));
        }
        // Never beyond the limit and one byte, so that it is kept to the byte.
        self.goal = (self.buffer.len() + self.limits.block_bytes).min(max + 1);
        Ok(None)
    }

    /// Takes records from the front of the buffer. Nothing if no record is whole.
    fn take(&mut self, len: usize) -> Option<Block> {
        let (rows, head) = (self.cutter.rows(), self.cutter.head());
        if len <= head {
            return None;
        }
        self.cutter.shift(len);
        let mut rest = Vec::with_capacity(self.limits.block_bytes + crate::build::PADDING);
        rest.extend_from_slice(&self.buffer[len..]);
        self.goal = self.limits.block_bytes.max(rest.len() + 1);
        let mut bytes = std::mem::replace(&mut self.buffer, rest);
        bytes.truncate(len);
        let line_end = self.cutter.line_end();
        let lines = match rows {
            Some(rows) => rows,
            None => count_lines(&bytes, self.format, line_end),
        };
        let has_header = std::mem::take(&mut self.is_first) && self.header != Header::None;
        let mut block = Block::new(bytes, self.line, self.format, line_end, has_header);
        block.at = head;
        self.line += lines;
        Some(block)
    }

    /// Returns a block of no bytes if names must match and the data has ended without any line.
    fn missing_header(&mut self) -> Option<Block> {
        let is_missing = std::mem::take(&mut self.is_first) && self.header == Header::Match;
        let line_end = self.cutter.line_end();
        is_missing.then(|| Block::new(Vec::new(), self.line, self.format, line_end, true))
    }
}
