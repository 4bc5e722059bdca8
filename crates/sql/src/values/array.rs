//! The text form of arrays: `{1,2,NULL,"a b"}`, nested for several dimensions.
//!
//! 1. All rows of one dimension have one length; a text that breaks this is 22P02.
//! 2. An array that is read has one dimension, which begins at 1; others are 0A000. One that a table has is still
//!    written.

use relational::{Array, ArrayDimension, DataType, Error, Result, SqlState, Value};

use super::settings::Settings;
use super::text::value_text;
use super::{error, parse_value};

/// PostgreSQL's limit of the dimensions of an array.
const DIMENSIONS_MAX: usize = 6;

/// Fails with 0A000 if an array that is read has several dimensions, or does not begin at 1: columns of queries
/// keep neither.
pub(super) fn check_dimensions(dimensions: &[ArrayDimension]) -> Result<()> {
    if dimensions.len() > 1 {
        return Err(Error::unsupported("arrays of several dimensions are not supported"));
    }
    match dimensions.iter().all(|dimension| dimension.lower == 1) {
        true => Ok(()),
        false => Err(Error::unsupported("arrays that do not begin at 1 are not supported")),
    }
}

/// Returns the text of an array.
pub fn array_text(array: &Array, settings: &Settings) -> String {
    if array.dimensions.is_empty() || array.values.is_empty() {
        return "{}".to_owned();
    }
    let mut out = String::new();
    if array.dimensions.iter().any(|dimension| dimension.lower != 1) {
        for dimension in &array.dimensions {
            let upper = i64::from(dimension.lower) + i64::from(dimension.length) - 1;
            out.push_str(&format!("[{}:{upper}]", dimension.lower));
        }
        out.push('=');
    }
    let mut values = array.values.iter();
    write_level(&array.dimensions, &mut values, settings, &mut out);
    out
}

fn write_level(
    dimensions: &[ArrayDimension],
    values: &mut std::slice::Iter<'_, Value>,
    settings: &Settings,
    out: &mut String,
) {
    let Some((first, rest)) = dimensions.split_first() else { return };
    out.push('{');
    for at in 0..first.length {
        if at > 0 {
            out.push(',');
        }
        if rest.is_empty() {
            write_element(values.next().unwrap_or(&Value::Null), settings, out);
        } else {
            write_level(rest, values, settings, out);
        }
    }
    out.push('}');
}

fn write_element(value: &Value, settings: &Settings, out: &mut String) {
    if value.is_null() {
        out.push_str("NULL");
        return;
    }
    let text = value_text(value, settings);
    let special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_ascii_whitespace();
    let quote = text.is_empty() || text.eq_ignore_ascii_case("null") || text.contains(special);
    if !quote {
        out.push_str(&text);
        return;
    }
    out.push('"');
    for symbol in text.chars() {
        if matches!(symbol, '"' | '\\') {
            out.push('\\');
        }
        out.push(symbol);
    }
    out.push('"');
}

/// Returns the array of a text. Errors: 22P02 for a bad form, and the element's errors.
pub fn parse_array(text: &str, element: &DataType, settings: &Settings) -> Result<Array> {
    let mut reader =
        Reader { text, at: 0, element, settings, values: Vec::new(), lengths: Vec::new() };
    let lowers = reader.bounds()?;
    reader.blanks();
    if reader.peek() != Some(b'{') {
        let detail = "Array value must start with \"{\" or dimension information.";
        return Err(reader.bad(detail));
    }
    reader.level(0)?;
    reader.blanks();
    if reader.at != text.len() {
        return Err(reader.bad("Junk after closing right brace."));
    }
    reader.finish(&lowers)
}

/// Reads one text from left to right.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    element: &'a DataType,
    settings: &'a Settings,
    values: Vec<Value>,
    /// Length of each dimension, set by its first row.
    lengths: Vec<Option<u32>>,
}

impl Reader<'_> {
    fn bad(&self, detail: &str) -> Error {
        let message = format!("malformed array literal: \"{}\"", self.text);
        error(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Reads `[1:2][0:3]=` and returns the lower bounds with the lengths.
    fn bounds(&mut self) -> Result<Vec<(i32, u32)>> {
        let mut out = Vec::new();
        self.blanks();
        while self.peek() == Some(b'[') {
            let close = self.text[self.at..].find(']').ok_or_else(|| self.bad("Missing \"]\"."))?;
            let inside = &self.text[self.at + 1..self.at + close];
            let (lower, upper) = inside.split_once(':').unwrap_or(("1", inside));
            let number = |text: &str| text.trim().parse::<i32>().ok();
            let (lower, upper) = number(lower)
                .zip(number(upper))
                .filter(|(lower, upper)| lower <= upper)
                .ok_or_else(|| self.bad("Bad array dimensions."))?;
            let length = i64::from(upper) - i64::from(lower) + 1;
            out.push((lower, u32::try_from(length).unwrap_or(u32::MAX)));
            self.at += close + 1;
        }
        if !out.is_empty() {
            self.blanks();
            if self.peek() != Some(b'=') || out.len() > DIMENSIONS_MAX {
                return Err(self.bad("Missing \"=\" after array dimensions."));
            }
            self.at += 1;
        }
        Ok(out)
    }

    /// Reads one pair of braces.
    fn level(&mut self, depth: usize) -> Result<()> {
        if depth >= DIMENSIONS_MAX {
            let message = format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})",
                depth + 1
            );
            return Err(error(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        if self.lengths.len() <= depth {
            self.lengths.push(None);
        }
        self.at += 1;
        let mut count = 0_u32;
        self.blanks();
        while self.peek() != Some(b'}') {
            if count > 0 {
                self.comma()?;
            }
            self.blanks();
            let nested = self.peek() == Some(b'{');
            if nested != (depth + 1 < self.lengths.len()) && (count > 0 || !self.values.is_empty())
            {
                return Err(self.uneven());
            }
            if nested {
                self.level(depth + 1)?;
            } else {
                self.item()?;
            }
            count += 1;
            self.blanks();
        }
        self.at += 1;
        match self.lengths[depth] {
            Some(length) if length != count => return Err(self.uneven()),
            _ => self.lengths[depth] = Some(count),
        }
        Ok(())
    }

    fn uneven(&self) -> Error {
        self.bad("Multidimensional arrays must have sub-arrays with matching dimensions.")
    }

    fn comma(&mut self) -> Result<()> {
        match self.peek() {
            Some(b',') => self.at += 1,
            Some(_) => return Err(self.bad("Unexpected array element.")),
            None => return Err(self.bad("Unexpected end of input.")),
        }
        Ok(())
    }

    /// Reads one element, quoted or not.
    fn item(&mut self) -> Result<()> {
        let quoted = self.peek() == Some(b'"');
        self.at += usize::from(quoted);
        let mut text = String::new();
        let mut escaped = false;
        loop {
            let Some(symbol) = self.text[self.at..].chars().next() else {
                return Err(self.bad("Unexpected end of input."));
            };
            match symbol {
                '\\' => {
                    self.at += 1;
                    let Some(next) = self.text[self.at..].chars().next() else {
                        return Err(self.bad("Unexpected end of input."));
                    };
                    text.push(next);
                    escaped = true;
                    self.at += next.len_utf8();
                    continue;
                }
                '"' if quoted => {
                    self.at += 1;
                    break;
                }
                ',' | '}' if !quoted => break,
                '"' | '{' if !quoted => return Err(self.bad("Unexpected array element.")),
                _ => text.push(symbol),
            }
            self.at += symbol.len_utf8();
        }
        let trimmed = if quoted || escaped { text.as_str() } else { text.trim_end() };
        if !quoted && trimmed.is_empty() {
            return Err(self.bad("Unexpected \",\" or \"}\" character."));
        }
        let null = !quoted && !escaped && trimmed.eq_ignore_ascii_case("null");
        let value =
            if null { Value::Null } else { parse_value(trimmed, self.element, self.settings)? };
        self.values.push(value);
        Ok(())
    }

    fn finish(self, bounds: &[(i32, u32)]) -> Result<Array> {
        let mut dimensions = Vec::new();
        for (at, length) in self.lengths.iter().enumerate() {
            let length = length.unwrap_or(0);
            let (lower, expected) = bounds.get(at).copied().unwrap_or((1, length));
            if expected != length {
                return Err(self.bad("Specified array dimensions do not match array contents."));
            }
            dimensions.push(ArrayDimension { length, lower });
        }
        if !bounds.is_empty() && bounds.len() != dimensions.len() {
            return Err(self.bad("Specified array dimensions do not match array contents."));
        }
        if self.values.is_empty() {
            dimensions.clear();
        }
        check_dimensions(&dimensions)?;
        Ok(Array { element: self.element.clone(), dimensions, values: self.values })
    }
}
