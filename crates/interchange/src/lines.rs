//! Numbered lines of an input of any length, without holding more than one long line.
//!
//! 1. A line's `end` is the position of the first byte after its newline; with it and the line's
//!    number the place in the input is known, whoever consumed the bytes. It has a checksum of all
//!    lines before it: another input has no position of this one, but for what they share.
//! 2. A line over the limit, [`RECORD_BYTES_MAX`] unless told otherwise, is read to its end but kept only up to that length, and
//!    says so in `cut`. The checksum is of all of it.

use base::checksum::Xxh3;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

/// Longest record that is imported, in bytes of input.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// A place between two lines of the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Bytes of the input before it.
    pub offset: u64,
    /// Checksum of the bytes before it.
    #[serde(default)]
    pub sum: u64,
}

/// One line of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number; the first is 1.
    pub number: u64,
    /// The place behind it in the input.
    pub end: Position,
    /// Its bytes, without the newline; a carriage return before that is kept.
    pub text: Vec<u8>,
    /// True if bytes beyond the limit were dropped.
    pub cut: bool,
    /// True if a newline ended it, false if the input did.
    pub ended: bool,
}

impl Line {
    /// Its text without a carriage return at the end.
    pub fn trimmed(&self) -> &[u8] {
        self.text.strip_suffix(b"\r").unwrap_or(&self.text)
    }

    /// Returns whether there is nothing but white space on it.
    pub fn is_blank(&self) -> bool {
        self.text.trim_ascii().is_empty()
    }
}

/// Reads lines; some may be put back to be read again.
pub struct Lines {
    input: Box<dyn BufRead + Send>,
    bytes_max: usize,
    waiting: VecDeque<Line>,
    number: u64,
    offset: u64,
    sum: Xxh3,
}

impl Lines {
    /// The lines of `input`, a byte order mark at its start left out.
    pub fn new(input: Box<dyn BufRead + Send>) -> Self {
        Self::with_limit(input, RECORD_BYTES_MAX)
    }

    /// The lines of `input`, of which each is kept up to `bytes_max`.
    pub fn with_limit(input: Box<dyn BufRead + Send>, bytes_max: usize) -> Self {
        let (waiting, sum) = (VecDeque::new(), Xxh3::default());
        Self { input, bytes_max, waiting, number: 0, offset: 0, sum }
    }

    /// The next line, `None` at the end.
    pub fn next_line(&mut self) -> io::Result<Option<Line>> {
        if let Some(line) = self.waiting.pop_front() {
            return Ok(Some(line));
        }
        let mut text = Vec::new();
        let limit = self.bytes_max as u64 + 1;
        let mut read = (&mut self.input).take(limit).read_until(b'\n', &mut text)? as u64;
        if read == 0 {
            return Ok(None);
        }
        self.sum.update(&text);
        let ended = text.last() == Some(&b'\n');
        let cut = read == limit && !ended;
        if cut {
            text.truncate(self.bytes_max);
            read += self.skip_line()?;
        } else if ended {
            text.pop();
        }
        if self.number == 0 && text.starts_with(b"\xef\xbb\xbf") {
            text.drain(..3);
        }
        self.number += 1;
        self.offset += read;
        let end = Position { offset: self.offset, sum: self.sum.digest() };
        Ok(Some(Line { number: self.number, end, text, cut, ended }))
    }

    /// Reads on to the end of the line, for the checksum only; gives the bytes.
    fn skip_line(&mut self) -> io::Result<u64> {
        let mut read = 0;
        loop {
            let bytes = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            let newline = bytes.iter().position(|byte| *byte == b'\n');
            let len = newline.map_or(bytes.len(), |at| at + 1);
            self.sum.update(&bytes[..len]);
            self.input.consume(len);
            read += len as u64;
            if newline.is_some() || len == 0 {
                return Ok(read);
            }
        }
    }

    /// The next line that is not blank.
    pub fn next_filled(&mut self) -> io::Result<Option<Line>> {
        while let Some(line) = self.next_line()? {
            if !line.is_blank() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// Puts `lines`, the last ones read, back to be read again in their order.
    pub fn put_back(&mut self, lines: impl DoubleEndedIterator<Item = Line>) {
        for line in lines.rev() {
            self.waiting.push_front(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static [u8]) -> Lines {
        Lines::new(Box::new(text))
    }

    #[test]
    fn lines_know_their_number_and_end() {
        let mut lines = lines(b"\xef\xbb\xbfa\r\n\nlast");
        let mut seen = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            seen.push((line.number, line.end.offset, line.trimmed().to_vec()));
        }
        assert_eq!(seen, [(1, 6, b"a".to_vec()), (2, 7, b"".to_vec()), (3, 11, b"last".to_vec())]);
    }

    #[test]
    fn a_position_is_of_all_that_stands_before_it() {
        let ends = |text| {
            let mut lines = lines(text);
            std::iter::from_fn(move || lines.next_line().unwrap()).map(|line| line.end).collect()
        };
        let one: Vec<Position> = ends(b"a,1\nb,2\nc,3\n");
        let other: Vec<Position> = ends(b"a,1\nB,2\nc,3\n");
        assert_eq!(one[0], other[0]);
        assert!(one[1..].iter().zip(&other[1..]).all(|(a, b)| a.offset == b.offset && a != b));
    }

    #[test]
    fn a_position_is_also_of_what_a_line_has_past_the_limit() {
        let end = |tail: &'static [u8]| {
            let long = io::repeat(b'x').take(RECORD_BYTES_MAX as u64 + 1);
            let input = long.chain(tail).chain(&b"\nnext\n"[..]);
            let mut lines = Lines::new(Box::new(io::BufReader::new(input)));
            lines.next_line().unwrap();
            lines.next_line().unwrap().unwrap().end
        };
        let (one, other) = (end(b"xay"), end(b"xby"));
        assert_eq!(one.offset, other.offset);
        assert_ne!(one, other);
        assert_eq!(one, end(b"xay"));
    }

    #[test]
    fn lines_put_back_come_again_in_order() {
        let mut lines = lines(b"a\nb\nc");
        let read: Vec<Line> = (0..2).map(|_| lines.next_line().unwrap().unwrap()).collect();
        lines.put_back(read.into_iter());
        for want in [&b"a"[..], b"b", b"c"] {
            assert_eq!(lines.next_line().unwrap().unwrap().text, want);
        }
    }

    #[test]
    fn an_endless_line_is_cut_and_the_next_one_is_whole() {
        let long = RECORD_BYTES_MAX as u64 + 5;
        let input = io::repeat(b'x').take(long).chain(&b"\nnext\n"[..]);
        let mut lines = Lines::new(Box::new(io::BufReader::new(input)));
        let line = lines.next_line().unwrap().unwrap();
        assert!(line.cut && line.text.len() == RECORD_BYTES_MAX && line.end.offset == long + 1);
        let next = lines.next_line().unwrap().unwrap();
        assert_eq!((next.number, next.text.as_slice(), next.cut), (2, &b"next"[..], false));
    }
}
