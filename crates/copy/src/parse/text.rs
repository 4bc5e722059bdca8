//! Records of text.
//!
//! The place of the next backslash is known, so that a field before it is taken as it is.

use super::check::check_line_ends;
use super::near::find_near;
use super::record::text_field;
use super::{Parser, Problem, extra_data, missing_data};
use crate::block::{Block, LineEnd, is_escaped};
use crate::build::text_of;
use crate::error::Error;
use crate::values::not_text;

impl Parser {
    /// Parses records from the front of a block.
    pub(super) fn parse_text(
        &mut self,
        block: &mut Block,
        rows_max: usize,
    ) -> Result<(), Box<Problem>> {
        let (sound, has_strays) = sound(block);
        let line_end = block.line_end;
        let (last, is_crlf) = (line_end.last(), line_end == LineEnd::CrLf);
        let padded = block.padded();
        let mut at = block.at;
        let text = text_from(padded, at, sound).map_err(|error| Problem::of_record(error, at))?;
        let source = Source { text, base: at, padded };
        let mut escape = next_escape(&padded[..sound], at);
        while at < sound && self.rows < rows_max {
            let mut end = find(padded, last, at, sound);
            while end < sound && is_escaped(&padded[at..end]) {
                end = find(padded, last, end + 1, sound);
            }
            let next = (end + 1).min(sound);
            if has_strays {
                check_line_ends(&padded[at..next], &self.shape, line_end)
                    .map_err(|(error, stray)| Problem::of_byte(error, at, at + stray))?;
                end -= usize::from(is_crlf && end < sound);
            }
            self.parse_record(&source, at, end, &mut escape)?;
            self.rows += 1;
            at = next;
        }
        block.at = at;
        Ok(())
    }

    /// Parses the record `at..end`, which has no line end. `escape` is the place of the next backslash.
    #[inline(always)]
    fn parse_record(
        &mut self,
        source: &Source<'_>,
        at: usize,
        end: usize,
        escape: &mut usize,
    ) -> Result<(), Box<Problem>> {
        let record = at;
        let (padded, delimiter) = (source.padded, self.shape.delimiter);
        let fixed_offset = self.forms.fixed_offset();
        let count = self.columns.len();
        // One beyond the end tells that no field is left.
        let mut at = at;
        for (number, column) in self.columns.iter_mut().enumerate() {
            let is_last = number + 1 == count;
            if self.shape.has_plain_numbers {
                let ends = |place: usize| match is_last {
                    true => place == end,
                    false => padded[place] == delimiter && place < end,
                };
                if let Some(place) = column.push_leading(padded, at, fixed_offset, ends) {
                    at = place + 1;
                    continue;
                }
            }
            if at > end {
                let error = missing_data(&column.column.name);
                return Err(Problem::of_record(error, record));
            }
            let mut place = find_near(padded, delimiter, at, end);
            let pushed = if *escape < place {
                // A backslash changes the value, or where it ends.
                self.scratch.clear();
                let is_null;
                (place, is_null) = text_field(&padded[..end], at, &self.shape, &mut self.scratch);
                *escape = next_escape(&padded[..source.end()], place);
                match is_null {
                    true => {
                        column.push_null(self.rows);
                        Ok(())
                    }
                    false => text_of(&self.scratch)
                        .and_then(|text| column.push_text(text, &*self.forms))
                        .map_err(|error| (error, &*self.scratch)),
                }
            } else if self.shape.is_null(&padded[at..place]) {
                column.push_null(self.rows);
                Ok(())
            } else {
                source
                    .get(at, place)
                    .and_then(|text| column.push_text(text, &*self.forms))
                    .map_err(|error| (error, &padded[at..place]))
            };
            if let Err((error, value)) = pushed {
                return Err(Problem::of_value(error, record, number, value));
            }
            if is_last && place < end {
                return Err(Problem::of_record(extra_data(), record));
            }
            at = place + 1;
        }
        if count == 0 && at < end {
            return Err(Problem::of_record(extra_data(), record));
        }
        Ok(())
    }
}

/// Text of a block from a place on, and the bytes of the whole block with their padding.
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) base: usize,
    pub(super) padded: &'a [u8],
}

impl<'a> Source<'a> {
    /// Returns a part of the text.
    #[inline(always)]
    pub(super) fn get(&self, from: usize, to: usize) -> Result<&'a str, Error> {
        // A delimiter is ASCII, so fields begin and end between characters.
        let part = self.text.get(from - self.base..to - self.base);
        part.ok_or_else(|| not_text(self.padded, from))
    }

    pub(super) fn end(&self) -> usize {
        self.base + self.text.len()
    }
}

/// Returns the end of the sound records of a block, and whether each must be looked at.
pub(super) fn sound(block: &Block) -> (usize, bool) {
    match &block.checked {
        Some(checked) => (checked.sound, checked.has_strays),
        None => (block.at, true),
    }
}

/// Returns data that was checked as text.
pub(super) fn text_from(padded: &[u8], at: usize, sound: usize) -> Result<&str, Error> {
    let bytes = &padded[at..sound];
    simdutf8::basic::from_utf8(bytes).map_err(|_| not_text(padded, at))
}

/// Returns the place of a byte in `from..to`, or `to`.
#[inline(always)]
fn find(data: &[u8], byte: u8, from: usize, to: usize) -> usize {
    memchr::memchr(byte, &data[from..to]).map_or(to, |found| from + found)
}

fn next_escape(data: &[u8], from: usize) -> usize {
    find(data, b'\\', from, data.len())
}
