//! Ends of records of CSV.
//!
//! 1. A line end inside of quotes is data. If the escape is the quote itself, a place is inside after an
//!    odd number of quotes, so counting them is enough.
//! 2. `\.` alone on the line where a record would begin ends the data. Its line end must be there, and be
//!    that of the first line. Elsewhere `\.` is data.

use super::line_end::FirstLine;
use super::{Cut, Cutter, OTHER_LINE_END};
use crate::block::LineEnd;
use crate::error::Error;
use crate::options::Options;
use memchr::memmem::Finder;

/// The state of a place: inside of quotes or not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Quotes {
    pub(crate) is_inside: bool,
    /// True behind an escape that is not the second one of a pair.
    is_escaped: bool,
}

impl Quotes {
    /// Moves the place over more data.
    pub(crate) fn pass(&mut self, data: &[u8], quote: u8, escape: u8) {
        if quote == escape {
            self.is_inside ^= memchr::memchr_iter(quote, data).count() % 2 == 1;
            return;
        }
        let mut behind = 0;
        for at in memchr::memchr2_iter(quote, escape, data) {
            self.is_escaped &= at == behind;
            if data[at] == escape {
                self.is_escaped = self.is_inside && !self.is_escaped;
            } else {
                self.is_inside ^= !self.is_escaped;
                self.is_escaped = false;
            }
            behind = at + 1;
        }
        self.is_escaped &= behind == data.len();
    }
}

/// The next mark of the end, at its place.
enum Mark {
    None,
    /// More data must tell what it is.
    Unknown(usize),
    End(usize),
    /// It stands before another line end.
    Wrong(usize),
}

/// Returns what `\.` at the front of a line is by the bytes behind it.
fn mark_at(at: usize, behind: &[u8], line_end: Option<LineEnd>, is_last: bool) -> Mark {
    use LineEnd::{Cr, CrLf, Lf};
    match (behind, line_end) {
        ([], _) | ([b'\r'], Some(CrLf)) if !is_last => Mark::Unknown(at),
        ([b'\n', ..], None | Some(Lf)) | ([b'\r', ..], None | Some(Cr)) => Mark::End(at),
        ([b'\r', b'\n', ..], Some(CrLf)) => Mark::End(at),
        ([b'\r', ..], Some(Lf)) | ([b'\n', ..], Some(Cr)) => Mark::Wrong(at),
        ([b'\r', b'\r', ..], Some(CrLf)) => Mark::Wrong(at),
        _ => Mark::None,
    }
}

pub(super) struct CsvCutter {
    quote: u8,
    escape: u8,
    line_end: Option<LineEnd>,
    first_line: FirstLine,
    mark: Finder<'static>,
    /// Bytes that were searched for line ends, and the state behind them.
    searched: (usize, Quotes),
    /// True before the first record is taken.
    is_first: bool,
    /// Bytes that were searched for a mark.
    without_mark: usize,
    /// A place at or before the next mark, and the state there.
    mark_quotes: (usize, Quotes),
}

impl CsvCutter {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            quote: options.quote,
            escape: options.escape,
            line_end: None,
            first_line: FirstLine::new(Some((options.quote, options.escape))),
            mark: Finder::new(b"\\."),
            searched: (0, Quotes::default()),
            is_first: true,
            without_mark: 0,
            mark_quotes: (0, Quotes::default()),
        }
    }

    /// Searches for a mark of the end.
    fn find_mark(&mut self, data: &[u8], is_last: bool) -> Mark {
        while let Some(found) = self.mark.find(&data[self.without_mark..]) {
            let at = self.without_mark + found;
            let begins_line =
                at == 0 || self.line_end.is_some_and(|end| data[at - 1] == end.last());
            // At the front of the data, any line end is the first one.
            let line_end = self.line_end.filter(|_| at > 0 || !self.is_first);
            match mark_at(at, &data[at + 2..], line_end, is_last) {
                mark @ Mark::Unknown(_) if begins_line => return mark,
                mark @ (Mark::End(_) | Mark::Wrong(_)) if begins_line => {
                    let (from, quotes) = &mut self.mark_quotes;
                    quotes.pass(&data[*from..at], self.quote, self.escape);
                    *from = at;
                    if !quotes.is_inside {
                        return mark;
                    }
                }
                _ => {}
            }
            self.without_mark = at + 1;
        }
        self.without_mark = data.len().saturating_sub(1).max(self.without_mark);
        Mark::None
    }

    /// Returns the place behind the last line end outside of quotes, in data that was not searched.
    fn last_end(&mut self, data: &[u8], line_end: LineEnd) -> Option<usize> {
        let (from, before) = self.searched;
        if from > data.len() {
            // A backslash that may begin a mark was searched before it was known as one.
            return None;
        }
        let mut quotes = before;
        quotes.pass(&data[from..], self.quote, self.escape);
        self.searched = (data.len(), quotes);
        if self.quote != self.escape {
            return self.last_end_by_steps(data, from, before, line_end);
        }
        let (mut is_inside, mut to) = (quotes.is_inside, data.len());
        while let Some(found) = memchr::memrchr2(line_end.last(), self.quote, &data[from..to]) {
            to = from + found;
            if data[to] == self.quote {
                is_inside = !is_inside;
            } else if !is_inside {
                return Some(to + 1);
            }
        }
        None
    }

    /// As `last_end`, of data in which an escape is no quote.
    fn last_end_by_steps(
        &self,
        data: &[u8],
        from: usize,
        mut quotes: Quotes,
        line_end: LineEnd,
    ) -> Option<usize> {
        let (mut passed, mut last) = (from, None);
        for at in memchr::memchr_iter(line_end.last(), &data[from..]) {
            quotes.pass(&data[passed..from + at], self.quote, self.escape);
            passed = from + at;
            if !quotes.is_inside {
                last = Some(passed + 1);
            }
        }
        last
    }
}

impl Cutter for CsvCutter {
    fn cut(&mut self, data: &[u8], is_last: bool) -> Cut {
        if self.line_end.is_none() {
            self.line_end = self.first_line.find(data, is_last);
        }
        let mut data = data;
        match self.find_mark(data, is_last) {
            Mark::Unknown(mark) => data = &data[..mark],
            Mark::End(mark) => return Cut::End(mark, mark + 2),
            Mark::Wrong(mark) => return Cut::Wrong(mark, Error::format(OTHER_LINE_END)),
            Mark::None => {}
        }
        let Some(line_end) = self.line_end else { return Cut::More };
        match self.last_end(data, line_end) {
            _ if is_last => Cut::At(data.len()),
            Some(end) => Cut::At(end),
            None => Cut::More,
        }
    }

    fn shift(&mut self, len: usize) {
        if len == 0 {
            return;
        }
        self.is_first = false;
        // A block ends outside of quotes, but the state behind what was searched stays.
        self.searched.0 = self.searched.0.saturating_sub(len);
        self.without_mark = self.without_mark.saturating_sub(len);
        let (from, quotes) = &mut self.mark_quotes;
        if *from < len {
            (*from, *quotes) = (0, Quotes::default());
        } else {
            *from -= len;
        }
    }

    fn line_end(&self) -> LineEnd {
        self.line_end.unwrap_or_default()
    }
}
