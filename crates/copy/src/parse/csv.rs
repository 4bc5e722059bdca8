//! Records of CSV.
//!
//! A field that is in quotes as a whole, or not at all, is taken as it is. Any other is read the plain way.

use super::check::{check_line_ends, record_end};
use super::near::{find_near, find_near3};
use super::record::{csv_field, open_quote};
use super::text::{Source, sound, text_from};
use super::{Parser, Problem, extra_data, missing_data};
use crate::block::Block;
use crate::build::text_of;
use crate::column::Column;

/// A field that is taken as it is.
struct Simple {
    from: usize,
    to: usize,
    /// The place behind it: a delimiter, a line end, or the end.
    end: usize,
    is_quoted: bool,
}

impl Parser {
    /// Parses records from the front of a block.
    pub(super) fn parse_csv(
        &mut self,
        block: &mut Block,
        rows_max: usize,
    ) -> Result<(), Box<Problem>> {
        let (sound, has_strays) = sound(block);
        let line_end = block.line_end;
        let padded = block.padded();
        let mut at = block.at;
        let text = text_from(padded, at, sound).map_err(|error| Problem::of_record(error, at))?;
        let source = Source { text, base: at, padded };
        while at < sound && self.rows < rows_max {
            if has_strays {
                let end = record_end(&padded[..sound], at, &self.shape, line_end);
                check_line_ends(&padded[at..end], &self.shape, line_end)
                    .map_err(|(error, stray)| Problem::of_byte(error, at, at + stray))?;
            }
            let end = self.parse_csv_record(&source, at, line_end.first())?;
            self.rows += 1;
            at = (end + line_end.len()).min(sound);
        }
        block.at = at;
        Ok(())
    }

    /// Parses the record at a place. Returns its end, which is its line end or that of the data.
    #[inline(always)]
    fn parse_csv_record(
        &mut self,
        source: &Source<'_>,
        record: usize,
        line_end: u8,
    ) -> Result<usize, Box<Problem>> {
        let (padded, sound, delimiter) = (source.padded, source.end(), self.shape.delimiter);
        let fixed_offset = self.forms.fixed_offset();
        let is_end = |place: usize| place == sound || padded[place] == line_end;
        let count = self.columns.len();
        let mut at = record;
        let mut has_more = true;
        for (number, column) in self.columns.iter_mut().enumerate() {
            let is_last = number + 1 == count;
            if !has_more {
                let error = missing_data(&column.column.name);
                return Err(Problem::of_record(error, record));
            }
            if self.shape.has_plain_numbers {
                let ends = |place: usize| match is_last {
                    true => is_end(place),
                    false => padded[place] == delimiter && place < sound,
                };
                if let Some(place) = column.push_leading(padded, at, fixed_offset, ends) {
                    at = place + usize::from(!is_last);
                    continue;
                }
            }
            let simple = self.shape.simple_field(&padded[..sound], at, line_end);
            let (end, is_quoted, value) = match &simple {
                Some(simple) => {
                    let text = source.get(simple.from, simple.to);
                    (simple.end, simple.is_quoted, text)
                }
                None => {
                    self.scratch.clear();
                    let data = &padded[..sound];
                    let line_end = Some(line_end);
                    let found = csv_field(data, at, line_end, &self.shape, &mut self.scratch);
                    if found.is_open {
                        return Err(Problem::of_record(open_quote(), record));
                    }
                    (found.end, found.is_quoted, text_of(&self.scratch))
                }
            };
            let pushed = value.and_then(|text| match self.shape.is_null(text.as_bytes()) {
                true if may_be_null(&column.column, is_quoted) => {
                    column.push_null(self.rows);
                    Ok(())
                }
                _ => column.push_text(text, &*self.forms),
            });
            if let Err(error) = pushed {
                let value = match &simple {
                    Some(simple) => &padded[simple.from..simple.to],
                    None => &self.scratch,
                };
                return Err(Problem::of_value(error, record, number, value));
            }
            has_more = !is_end(end);
            if is_last && has_more {
                return Err(Problem::of_record(extra_data(), record));
            }
            at = end + usize::from(has_more);
        }
        if count == 0 && !is_end(at) {
            return Err(Problem::of_record(extra_data(), record));
        }
        Ok(at)
    }
}

/// Returns whether the text of NULL is NULL: in quotes by FORCE_NULL, else unless FORCE_NOT_NULL.
fn may_be_null(column: &Column, is_quoted: bool) -> bool {
    if is_quoted { column.force_null } else { !column.force_not_null }
}

impl super::record::Shape {
    /// Returns the field at a place, if it is in quotes as a whole or not at all.
    #[inline(always)]
    fn simple_field(&self, data: &[u8], at: usize, line_end: u8) -> Option<Simple> {
        if data.get(at) != Some(&self.quote) {
            let end = find_near3(data, [self.delimiter, self.quote, line_end], at);
            let is_quoted = data.get(end) == Some(&self.quote);
            return (!is_quoted).then_some(Simple { from: at, to: end, end, is_quoted });
        }
        let from = at + 1;
        let to = match self.quote == self.escape {
            true => find_near(data, self.quote, from, data.len()),
            false => {
                let found = memchr::memchr2(self.quote, self.escape, &data[from..])?;
                from + found
            }
        };
        if *data.get(to)? != self.quote {
            return None;
        }
        let end = to + 1;
        let is_whole = match data.get(end) {
            None => true,
            Some(&byte) => byte == self.delimiter || byte == line_end,
        };
        is_whole.then_some(Simple { from, to, end, is_quoted: true })
    }
}
