//! Comma- and tab-separated values.
//!
//! A quote that is never closed would swallow the rest of the input. So a record whose quoted
//! field reaches beyond [`OPEN_BYTES_MAX`] or the end of the input costs its first line only: that
//! one is rejected, and reading goes on with the line after it.

use super::{Item, Layout, Lines, Record, Records, too_long};
use crate::error::{Error, Result};
use crate::lines::Line;
use bytes::Bytes;
use std::collections::HashSet;
use std::io;

/// Longest record that spans lines.
const OPEN_BYTES_MAX: usize = 16 << 20;
/// Most columns that a header names.
const COLUMNS_MAX: usize = 100_000;

/// Reads CSV or TSV.
pub(super) struct Delimited {
    delimiter: u8,
    quoting: Quoting,
    names: Vec<Bytes>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Rfc4180,
    None,
}

impl Delimited {
    pub(super) fn csv(layout: &Layout, lines: &mut Lines) -> Result<Self> {
        Self::new(b',', Quoting::Rfc4180, layout, lines)
    }

    pub(super) fn tsv(layout: &Layout, lines: &mut Lines) -> Result<Self> {
        Self::new(b'\t', Quoting::None, layout, lines)
    }

    fn new(default: u8, quoting: Quoting, layout: &Layout, lines: &mut Lines) -> Result<Self> {
        let delimiter = layout.delimiter.unwrap_or(default);
        let mut reader = Self { delimiter, quoting, names: Vec::new() };
        reader.names = match &layout.columns {
            Some(columns) => columns.iter().map(|name| Bytes::from(name.clone())).collect(),
            None => reader.header(lines)?,
        };
        let mut seen = HashSet::new();
        if let Some(twice) = reader.names.iter().find(|name| !seen.insert(*name)) {
            let name = String::from_utf8_lossy(twice);
            return Err(Error::Unsupported(format!("two columns have the name {name:?}")));
        }
        Ok(reader)
    }

    fn header(&self, lines: &mut Lines) -> Result<Vec<Bytes>> {
        let empty = || Error::Unsupported("the input is empty; it has no header line".to_owned());
        let line = lines.next_filled()?.ok_or_else(empty)?;
        let mut splitter = Splitter::new(COLUMNS_MAX);
        match splitter.feed(&line.text, self.delimiter, self.quoting) {
            Fed::Done if splitter.count > COLUMNS_MAX => {
                let reason = format!("the header has more than {COLUMNS_MAX} columns");
                Err(Error::at_line(line.number, reason))
            }
            Fed::Done => Ok(splitter.fields),
            Fed::Open => Err(Error::at_line(line.number, "the header has an unclosed quote")),
            Fed::Bad(why) => {
                Err(Error::at_line(line.number, format!("the header is malformed: {why}")))
            }
        }
    }

    fn record(&self, split: Splitter) -> std::result::Result<Record, String> {
        let (fields, names) = (split.count, self.names.len());
        if fields != names {
            return Err(format!("{fields} fields, but the header has {names}"));
        }
        Ok(Record { fields: self.names.iter().cloned().zip(split.fields).collect() })
    }

    /// Goes on with a record whose first line ends inside quotes.
    fn open(&self, first: Line, mut splitter: Splitter, lines: &mut Lines) -> io::Result<Item> {
        let mut more: Vec<Line> = Vec::new();
        let mut len = first.text.len();
        while len < OPEN_BYTES_MAX
            && let Some(line) = lines.next_line()?
        {
            len += line.text.len() + 1;
            let (fed, cut) = (splitter.feed(&line.text, self.delimiter, self.quoting), line.cut);
            more.push(line);
            match fed {
                Fed::Open if !cut => {}
                Fed::Done if !cut => {
                    let last = more.last().map_or(first.end, |line| line.end);
                    let texts = std::iter::once(&first).chain(&more).map(|l| l.text.as_slice());
                    return Ok(Item {
                        line: first.number,
                        end: last,
                        text: texts.collect::<Vec<_>>().join(&b'\n'),
                        content: self.record(splitter),
                    });
                }
                _ => break,
            }
        }
        lines.put_back(more.into_iter());
        Ok(Item::of_line(first, Err("a quote opened on this line is not closed".into())))
    }
}

impl Records for Delimited {
    fn next(&mut self, lines: &mut Lines) -> io::Result<Option<Item>> {
        let Some(line) = lines.next_filled()? else { return Ok(None) };
        if line.cut {
            return Ok(Some(Item::of_line(line, Err(too_long()))));
        }
        let mut splitter = Splitter::new(self.names.len());
        let content = match splitter.feed(&line.text, self.delimiter, self.quoting) {
            Fed::Done => self.record(splitter),
            Fed::Open => return self.open(line, splitter, lines).map(Some),
            Fed::Bad(why) => Err(why.into()),
        };
        Ok(Some(Item::of_line(line, content)))
    }
}

/// Returns the `N` fields of a CSV record that is one line.
pub(crate) fn split_line<const N: usize>(line: &[u8]) -> std::result::Result<[Bytes; N], String> {
    let mut splitter = Splitter::new(N);
    match splitter.feed(line, b',', Quoting::Rfc4180) {
        Fed::Done => {
            let wrong = format!("{} fields instead of {N}; is the line truncated?", splitter.count);
            splitter.fields.try_into().ok().filter(|_| splitter.count == N).ok_or(wrong)
        }
        Fed::Open => Err("a quote opened on this line is not closed".to_owned()),
        Fed::Bad(why) => Err(why.to_owned()),
    }
}

/// Splits one record, line by line. Fields beyond the expected ones are counted and not kept.
struct Splitter {
    fields: Vec<Bytes>,
    fields_max: usize,
    count: usize,
    field: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the start of a field.
    Start,
    /// In a field without quotes.
    Plain,
    /// Between quotes.
    Quoted,
    /// After a quote that ended the field, or was the first of two that stand for one.
    Closed,
}

/// Outcome of taking in one line.
enum Fed {
    /// The record is complete.
    Done,
    /// It goes on in the next line.
    Open,
    /// It is malformed.
    Bad(&'static str),
}

impl Splitter {
    fn new(fields_max: usize) -> Self {
        let (fields, field, state) = (Vec::new(), Vec::new(), State::Start);
        Self { fields, fields_max, count: 0, field, state }
    }

    fn feed(&mut self, line: &[u8], delimiter: u8, quoting: Quoting) -> Fed {
        let quote = |byte| quoting == Quoting::Rfc4180 && byte == b'"';
        for (at, &byte) in line.iter().enumerate() {
            self.state = match self.state {
                State::Quoted if quote(byte) => State::Closed,
                State::Quoted => {
                    self.field.push(byte);
                    State::Quoted
                }
                State::Start if quote(byte) => State::Quoted,
                State::Closed if quote(byte) => {
                    self.field.push(byte);
                    State::Quoted
                }
                _ if byte == delimiter => {
                    self.end_field();
                    State::Start
                }
                state if byte == b'\r' && at + 1 == line.len() => state,
                State::Closed => {
                    return Fed::Bad("text between a closing quote and the next field");
                }
                State::Start | State::Plain => {
                    self.field.push(byte);
                    State::Plain
                }
            };
        }
        if self.state == State::Quoted {
            self.field.push(b'\n');
            return Fed::Open;
        }
        self.end_field();
        Fed::Done
    }

    fn end_field(&mut self) {
        self.count += 1;
        let field = std::mem::take(&mut self.field);
        if self.fields.len() < self.fields_max {
            self.fields.push(field.into());
        }
    }
}
