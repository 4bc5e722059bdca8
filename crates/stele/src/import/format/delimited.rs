//! Comma- and tab-separated values.
//!
//! A quote that is never closed would swallow the rest of the input. So a record whose quoted
//! field reaches beyond [`OPEN_BYTES_MAX`] or the end of the input costs its first line only: that
//! one is rejected, and reading goes on with the line after it.

use super::{Item, Layout, Lines, Record, Records, too_long};
use crate::import::lines::Line;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use std::collections::HashSet;
use std::io;

/// Longest record that spans lines.
const OPEN_BYTES_MAX: usize = 16 << 20;

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
            bail!("two columns have the name {:?}", String::from_utf8_lossy(twice));
        }
        Ok(reader)
    }

    fn header(&self, lines: &mut Lines) -> Result<Vec<Bytes>> {
        let line = lines.next_filled()?.context("the input is empty; it has no header line")?;
        let mut splitter = Splitter::default();
        match splitter.feed(&line.text, self.delimiter, self.quoting) {
            Fed::Done => Ok(splitter.fields),
            Fed::Open => bail!("line {}: the header has an unclosed quote", line.number),
            Fed::Bad(why) => bail!("line {}: the header is malformed: {why}", line.number),
        }
    }

    fn record(&self, fields: Vec<Bytes>) -> Result<Record, String> {
        if fields.len() != self.names.len() {
            return Err(format!(
                "{} fields, but the header has {}",
                fields.len(),
                self.names.len()
            ));
        }
        Ok(Record { fields: self.names.iter().cloned().zip(fields).collect() })
    }

    /// Goes on with a record whose first line ends inside quotes.
    fn open(&self, first: Line, mut splitter: Splitter, lines: &mut Lines) -> io::Result<Item> {
        let mut more: Vec<Line> = Vec::new();
        let mut len = first.text.len();
        while len < OPEN_BYTES_MAX
            && let Some(line) = lines.next()?
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
                        content: self.record(splitter.fields),
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
        let mut splitter = Splitter::default();
        let content = match splitter.feed(&line.text, self.delimiter, self.quoting) {
            Fed::Done => self.record(splitter.fields),
            Fed::Open => return self.open(line, splitter, lines).map(Some),
            Fed::Bad(why) => Err(why.into()),
        };
        Ok(Some(Item::of_line(line, content)))
    }
}

/// Splits one record, line by line.
#[derive(Default)]
struct Splitter {
    fields: Vec<Bytes>,
    field: Vec<u8>,
    state: State,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the start of a field.
    #[default]
    Start,
    /// In a field without quotes.
    Plain,
    /// Between quotes.
    Quoted,
    /// After a quote that ended the field, or was the first of two that stand for one.
    Closed,
}

/// Outcome of one line.
enum Fed {
    /// The record is complete.
    Done,
    /// It goes on in the next line.
    Open,
    /// It is malformed.
    Bad(&'static str),
}

impl Splitter {
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
        self.fields.push(std::mem::take(&mut self.field).into());
    }
}
