//! Ends of records of text.
//!
//! 1. A line end behind an odd number of backslashes is data.
//! 2. `\.` behind an even number of backslashes ends the data. It stands before a line end, which must be
//!    there.

use super::line_end::FirstLine;
use super::{Cut, Cutter, OTHER_LINE_END};
use crate::block::{LineEnd, is_escaped};
use crate::error::Error;
use memchr::memmem::Finder;

pub(super) struct TextCutter {
    line_end: Option<LineEnd>,
    first_line: FirstLine,
    mark: Finder<'static>,
    /// Bytes in which a mark of the end was looked for.
    without_mark: usize,
    /// Bytes in which a line end was looked for.
    without_end: usize,
}

impl TextCutter {
    pub(super) fn new() -> Self {
        Self {
            line_end: None,
            first_line: FirstLine::new(None),
            mark: Finder::new(b"\\."),
            without_mark: 0,
            without_end: 0,
        }
    }

    /// Returns the place of the mark of the end.
    fn find_mark(&mut self, data: &[u8]) -> Option<usize> {
        let mut from = self.without_mark;
        while let Some(found) = self.mark.find(&data[from..]) {
            if !is_escaped(&data[..from + found]) {
                self.without_mark = from + found;
                return Some(from + found);
            }
            from += found + 1;
        }
        // The last byte may be the first one of a mark.
        self.without_mark = data.len().saturating_sub(1).max(from);
        None
    }

    /// Returns the place behind the last line end of data that was not searched before.
    fn last_end(&mut self, data: &[u8], line_end: LineEnd) -> Option<usize> {
        // A backslash that may begin a mark was searched before it was known as one.
        let (from, mut to) = (self.without_end.min(data.len()), data.len());
        while let Some(found) = memchr::memrchr(line_end.last(), &data[from..to]) {
            let found = from + found;
            if !is_escaped(&data[..found]) {
                return Some(found + 1);
            }
            to = found;
        }
        self.without_end = data.len();
        None
    }

    /// Returns what a mark at a place means.
    fn at_mark(&mut self, data: &[u8], mark: usize, is_last: bool) -> Cut {
        let known = self.line_end;
        let found = match data[mark + 2..] {
            [] if !is_last => return Cut::More,
            [b'\r'] if !is_last && known != Some(LineEnd::Cr) => return Cut::More,
            [b'\n', ..] => Some(LineEnd::Lf),
            [b'\r', b'\n', ..] if known != Some(LineEnd::Cr) => Some(LineEnd::CrLf),
            [b'\r', ..] => Some(LineEnd::Cr),
            _ => None,
        };
        let message = match found {
            Some(found) if known.is_none_or(|known| known == found) => {
                return Cut::End(mark, data.len());
            }
            Some(_) => OTHER_LINE_END,
            None => "end-of-copy marker corrupt",
        };
        let line_end = known.unwrap_or_default();
        let before = self.last_end(&data[..mark], line_end).unwrap_or(0);
        Cut::Wrong(before, Error::format(message))
    }
}

impl Cutter for TextCutter {
    fn cut(&mut self, data: &[u8], is_last: bool) -> Cut {
        let mark = self.find_mark(data);
        if self.line_end.is_none() {
            // The bytes behind a mark are no line. Its backslash tells that a carriage return stands alone.
            let (lines, is_last) = mark.map_or((data, is_last), |mark| (&data[..=mark], false));
            self.line_end = self.first_line.find(lines, is_last);
        }
        let mut data = data;
        if let Some(mark) = mark {
            match self.at_mark(data, mark, is_last) {
                // Records before it are whole.
                Cut::More => data = &data[..mark],
                cut => return cut,
            }
        }
        let Some(line_end) = self.line_end else { return Cut::More };
        match self.last_end(data, line_end) {
            _ if is_last => Cut::At(data.len()),
            Some(end) => Cut::At(end),
            None => Cut::More,
        }
    }

    fn shift(&mut self, len: usize) {
        self.without_mark = self.without_mark.saturating_sub(len);
        self.without_end = self.without_end.saturating_sub(len);
    }

    fn line_end(&self) -> LineEnd {
        self.line_end.unwrap_or_default()
    }
}
