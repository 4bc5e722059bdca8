//! JSON: a parser that keeps numbers as they are written, and the canonical text of jsonb.
//!
//! 1. Objects are ordered by length and bytes of the key; of equal keys the last one stays. The
//!    text of two equal documents is equal, up to zeros at the end of numbers.
//! 2. Nesting is bounded, so that no text exhausts the stack.

use std::fmt;

use relational::{Error, Numeric, Result, SqlState};

use super::error;

/// Levels of arrays and objects.
const DEPTH_MAX: usize = 500;

/// A document, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// The JSON `null`, which is not SQL's NULL.
    Null,
    /// A truth value of a document.
    Bool(bool),
    /// A number with its scale.
    Number(Numeric),
    /// Text, without quotes and escapes.
    Text(String),
    /// Elements in the order of the text.
    Array(Vec<Json>),
    /// Members by length and bytes of their key.
    Object(Vec<(String, Json)>),
}

/// Returns the document of a text, or 22P02.
pub fn parse(text: &str) -> Result<Json> {
    let mut reader = Reader { text, at: 0 };
    let document = reader.value(0)?;
    reader.blanks();
    if reader.at < text.len() {
        return Err(reader.bad("Expected end of input"));
    }
    Ok(document)
}

impl Json {
    /// Returns an object with its members in canonical order.
    pub fn object(mut members: Vec<(String, Json)>) -> Json {
        members.reverse();
        members.sort_by(|left, right| key_order(&left.0, &right.0));
        members.dedup_by(|later, first| later.0 == first.0);
        Json::Object(members)
    }

    /// Returns a member of an object.
    pub fn member(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => {
                members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Returns an element of an array; a negative place counts from the end.
    pub fn element(&self, at: i64) -> Option<&Json> {
        let Json::Array(items) = self else { return None };
        let at = if at < 0 { at + items.len() as i64 } else { at };
        usize::try_from(at).ok().and_then(|at| items.get(at))
    }

    /// Returns the part at the end of a path of keys and places.
    pub fn path<'a>(&self, steps: impl IntoIterator<Item = &'a str>) -> Option<&Json> {
        let mut here = self;
        for step in steps {
            here = match here {
                Json::Array(_) => here.element(step.trim().parse().ok()?)?,
                _ => here.member(step)?,
            };
        }
        Some(here)
    }

    /// Returns the name that `jsonb_typeof` gives.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::Text(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// Returns true if every part of `other` is found in this document, as `@>` asks. An array contains a bare
    /// scalar here only, not within a document.
    pub fn contains(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Array(_), Json::Array(_) | Json::Object(_)) => self.holds(other),
            (Json::Array(items), scalar) => items.contains(scalar),
            _ => self.holds(other),
        }
    }

    fn holds(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Object(_), Json::Object(members)) => members
                .iter()
                .all(|(key, value)| self.member(key).is_some_and(|found| found.holds(value))),
            (Json::Array(items), Json::Array(wanted)) => {
                wanted.iter().all(|want| items.iter().any(|item| item.holds(want)))
            }
            _ => self == other,
        }
    }
}

fn key_order(left: &str, right: &str) -> std::cmp::Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => out.write_str("null"),
            Json::Bool(value) => write!(out, "{value}"),
            Json::Number(number) => write!(out, "{number}"),
            Json::Text(text) => out.write_str(&quote(text)),
            Json::Array(items) => {
                out.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    write!(out, "{comma}{item}")?;
                }
                out.write_str("]")
            }
            Json::Object(members) => {
                out.write_str("{")?;
                for (at, (key, value)) in members.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    write!(out, "{comma}{}: {value}", quote(key))?;
                }
                out.write_str("}")
            }
        }
    }
}

/// Returns a text between quotes, escaped.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for symbol in text.chars() {
        match symbol {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if u32::from(control) < 0x20 => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
    out
}

/// Reads one text from left to right.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn bad(&self, detail: &str) -> Error {
        let rest = &self.text[self.at.min(self.text.len())..];
        let token: String = rest.chars().take_while(|c| !c.is_whitespace()).take(20).collect();
        let detail = match token.as_str() {
            "" => "The input string ended unexpectedly.".to_owned(),
            token if detail.is_empty() => format!("Token \"{token}\" is invalid."),
            token => format!("{detail}, but found \"{token}\"."),
        };
        error(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
            .with_detail(detail)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.bad(""));
        }
        self.at += word.len();
        Ok(value)
    }

    fn value(&mut self, depth: usize) -> Result<Json> {
        if depth > DEPTH_MAX {
            let message = format!("JSON is nested deeper than {DEPTH_MAX} levels");
            return Err(error(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        self.blanks();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.bad("Expected JSON value")),
        }
    }

    fn number(&mut self) -> Result<Json> {
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E')))
            .unwrap_or(rest.len());
        let token = &rest[..end];
        let digits = token.strip_prefix('-').unwrap_or(token).as_bytes();
        let leading = digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit();
        let dangling = token.ends_with('.') || token.contains(".e") || token.contains(".E");
        if leading || dangling || !digits.first().is_some_and(u8::is_ascii_digit) {
            return Err(self.bad(""));
        }
        let number = token.parse::<Numeric>().map_err(|_| self.bad(""))?;
        self.at += end;
        Ok(Json::Number(number))
    }

    fn array(&mut self, depth: usize) -> Result<Json> {
        self.at += 1;
        let mut items = Vec::new();
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.bad("Expected \",\" or \"]\"")),
            }
        }
        self.at += 1;
        Ok(Json::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Json> {
        self.at += 1;
        let mut members = Vec::new();
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(members));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.bad("Expected string"));
            }
            let key = self.string()?;
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(self.bad("Expected \":\""));
            }
            self.at += 1;
            members.push((key, self.value(depth + 1)?));
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.bad("Expected \",\" or \"}\"")),
            }
        }
        self.at += 1;
        Ok(Json::object(members))
    }

    fn string(&mut self) -> Result<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let Some(symbol) = self.text[self.at..].chars().next() else {
                return Err(self.bad(""));
            };
            self.at += symbol.len_utf8();
            match symbol {
                '"' => return Ok(out),
                '\\' => out.push(self.escape()?),
                control if u32::from(control) < 0x20 => {
                    self.at -= 1;
                    return Err(self.bad(""));
                }
                plain => out.push(plain),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let Some(byte) = self.peek() else { return Err(self.bad("")) };
        self.at += 1;
        Ok(match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => {
                self.at -= 1;
                return Err(self.bad(""));
            }
        })
    }

    /// Reads four digits, and the second half of a pair if they are its first.
    fn unicode(&mut self) -> Result<char> {
        let first = self.hex4()?;
        if first == 0 {
            let message = "unsupported Unicode escape sequence";
            return Err(error(SqlState::UNTRANSLATABLE_CHARACTER, message)
                .with_detail("\\u0000 cannot be converted to text."));
        }
        if !(0xd800..0xe000).contains(&first) {
            return char::from_u32(first).ok_or_else(|| self.bad(""));
        }
        if !self.text[self.at..].starts_with("\\u") || first >= 0xdc00 {
            return Err(self.bad(""));
        }
        self.at += 2;
        let second = self.hex4()?;
        if !(0xdc00..0xe000).contains(&second) {
            return Err(self.bad(""));
        }
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        char::from_u32(code).ok_or_else(|| self.bad(""))
    }

    fn hex4(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4).ok_or_else(|| self.bad(""))?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = u32::from_str_radix(digits, 16).ok().filter(|_| plain);
        let code = code.ok_or_else(|| self.bad(""))?;
        self.at += 4;
        Ok(code)
    }
}
