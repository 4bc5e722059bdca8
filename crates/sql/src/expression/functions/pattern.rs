//! LIKE, SIMILAR TO and regular expressions.
//!
//! 1. Regular expressions run in time linear in the text: back references and look-around are
//!    refused with 2201B.
//! 2. Compiled patterns are kept per thread, so that a constant pattern is compiled once. A thread keeps at most
//!    [`KEPT_BYTES_MAX`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use relational::{Error, Result, SqlState, Value};

use super::{Call, Definition, invalid, text};

/// Bytes of the patterns that a thread keeps.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// Bytes of a compiled pattern.
const COMPILED_BYTES_MAX: usize = 4 << 20;
/// Bytes of a compiled pattern of the usual size.
const SMALL_BYTES_MAX: usize = 128 << 10;
/// Bytes of what a pattern remembers of its searches.
const SEARCH_BYTES_MAX: usize = 512 << 10;

pub(super) const TABLE: &[Definition] = &[
    ("op:~~", "text,text -> bool", |call| matches(call, like(call.text(1), Some('\\'), false)?)),
    ("op:!~~", "text,text -> bool", |call| fails(call, like(call.text(1), Some('\\'), false)?)),
    ("op:~~*", "text,text -> bool", |call| matches(call, like(call.text(1), Some('\\'), true)?)),
    ("op:!~~*", "text,text -> bool", |call| fails(call, like(call.text(1), Some('\\'), true)?)),
    ("op:~~", "bytea,bytea -> bool", |call| Ok(Value::Bool(like_bytes(call)?))),
    ("op:!~~", "bytea,bytea -> bool", |call| Ok(Value::Bool(!like_bytes(call)?))),
    ("__like", "text,text,text -> bool", |call| {
        matches(call, like(call.text(1), escape_of(call)?, false)?)
    }),
    ("__ilike", "text,text,text -> bool", |call| {
        matches(call, like(call.text(1), escape_of(call)?, true)?)
    }),
    ("__similar", "text,text,text -> bool", |call| {
        matches(call, similar(call.text(1), escape_of(call)?)?)
    }),
    ("op:~", "text,text -> bool", |call| matches(call, regex_of(call.text(1), "")?)),
    ("op:!~", "text,text -> bool", |call| fails(call, regex_of(call.text(1), "")?)),
    ("op:~*", "text,text -> bool", |call| matches(call, regex_of(call.text(1), "i")?)),
    ("op:!~*", "text,text -> bool", |call| fails(call, regex_of(call.text(1), "i")?)),
    ("substring", "text,text -> text", |call| {
        let regex = regex_of(call.text(1), "")?;
        let Some(found) = regex.captures(call.text(0)) else { return Ok(Value::Null) };
        let part = if regex.captures_len() > 1 { found.get(1) } else { found.get(0) };
        part.map_or(Ok(Value::Null), |part| text(part.as_str()))
    }),
    ("regexp_replace", "text,text,text -> text", |call| replace(call, "")),
    ("regexp_replace", "text,text,text,text -> text", |call| replace(call, call.text(3))),
];

/// Patterns of a thread, and the most bytes that they take.
#[derive(Default)]
struct Kept {
    patterns: HashMap<String, Arc<Regex>>,
    bytes: usize,
}

impl Kept {
    fn keep(&mut self, key: String, regex: &Arc<Regex>, bytes: usize) {
        if self.bytes + bytes > KEPT_BYTES_MAX {
            *self = Self::default();
        }
        self.patterns.insert(key, Arc::clone(regex));
        self.bytes += bytes;
    }
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

fn compiled(pattern: String, ignore_case: bool) -> Result<Arc<Regex>> {
    let key = format!("{}{pattern}", if ignore_case { "i" } else { "c" });
    if let Some(regex) = KEPT.with_borrow(|kept| kept.patterns.get(&key).cloned()) {
        return Ok(regex);
    }
    let build = |bytes_max: usize| {
        let mut builder = RegexBuilder::new(&pattern);
        builder.case_insensitive(ignore_case).dot_matches_new_line(true);
        builder.size_limit(bytes_max).dfa_size_limit(SEARCH_BYTES_MAX).build()
    };
    let (built, bytes) = match build(SMALL_BYTES_MAX) {
        Err(regex::Error::CompiledTooBig(_)) => (build(COMPILED_BYTES_MAX), COMPILED_BYTES_MAX),
        other => (other, SMALL_BYTES_MAX),
    };
    let regex = Arc::new(built.map_err(|problem| {
        let cause = problem.to_string();
        let last = cause.lines().last().unwrap_or("").trim_start_matches("error: ");
        let message = format!("invalid regular expression: {last}");
        Error::new(SqlState::INVALID_REGULAR_EXPRESSION, message)
    })?);
    KEPT.with_borrow_mut(|kept| kept.keep(key, &regex, bytes + SEARCH_BYTES_MAX));
    Ok(regex)
}

/// Returns the compiled form of a regular expression with PostgreSQL's flags.
pub(super) fn regex_of(pattern: &str, flags: &str) -> Result<Arc<Regex>> {
    if let Some(bad) = flags.chars().find(|flag| !"gicsntx".contains(*flag)) {
        return Err(invalid(format!("invalid regular expression option: \"{bad}\"")));
    }
    let newline = if flags.contains('n') { "(?m-s)" } else { "" };
    let expanded = if flags.contains('x') { "(?x)" } else { "" };
    let translated = pattern
        .replace("\\m", "\\b{start}")
        .replace("\\M", "\\b{end}")
        .replace("\\y", "\\b")
        .replace("\\Z", "\\z")
        .replace("[[:<:]]", "\\b{start}")
        .replace("[[:>:]]", "\\b{end}");
    let embedded = translated.strip_prefix("***:").unwrap_or(&translated);
    compiled(format!("{newline}{expanded}{embedded}"), flags.contains('i'))
}

/// Returns the character of ESCAPE, or none for an empty text. 22025 for a longer one.
fn escape_of(call: &Call<'_>) -> Result<Option<char>> {
    let mut symbols = call.text(2).chars();
    match (symbols.next(), symbols.next()) {
        (_, Some(_)) => {
            let error = Error::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string");
            Err(error.with_hint("Escape string must be empty or one character."))
        }
        (escape, None) => Ok(escape),
    }
}

fn bad_escape() -> Error {
    let message = "LIKE pattern must not end with escape character";
    Error::new(SqlState::INVALID_ESCAPE_SEQUENCE, message)
}

/// Returns the expression of a LIKE pattern.
fn like(pattern: &str, escape: Option<char>, ignore_case: bool) -> Result<Arc<Regex>> {
    let mut out = String::from("\\A");
    let mut symbols = pattern.chars();
    while let Some(symbol) = symbols.next() {
        match symbol {
            symbol if Some(symbol) == escape => {
                let next = symbols.next().ok_or_else(bad_escape)?;
                out.push_str(&regex::escape(next.encode_utf8(&mut [0; 4])));
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            plain => out.push_str(&regex::escape(plain.encode_utf8(&mut [0; 4]))),
        }
    }
    out.push_str("\\z");
    compiled(out, ignore_case)
}

/// Returns whether bytes match a LIKE pattern, whose `_` is one byte.
fn like_bytes(call: &Call<'_>) -> Result<bool> {
    let (Value::Bytea(bytes), Value::Bytea(pattern)) = (call.value(0), call.value(1)) else {
        return Ok(false);
    };
    let (mut at, mut next) = (0, 0);
    // The places behind the last `%` and of the bytes that it took, from which to go on with one more.
    let mut again: Option<(usize, usize)> = None;
    loop {
        let (len, is_match) = match pattern.get(next) {
            Some(b'%') => {
                again = Some((next + 1, at));
                next += 1;
                continue;
            }
            None if at == bytes.len() => return Ok(true),
            None => (0, false),
            Some(b'_') => (1, at < bytes.len()),
            Some(b'\\') => {
                let escaped = pattern.get(next + 1).ok_or_else(bad_escape)?;
                (2, bytes.get(at) == Some(escaped))
            }
            plain => (1, bytes.get(at) == plain),
        };
        if is_match {
            (at, next) = (at + 1, next + len);
            continue;
        }
        match &mut again {
            Some((behind, taken)) if *taken < bytes.len() => {
                *taken += 1;
                (at, next) = (*taken, *behind);
            }
            _ => return Ok(false),
        }
    }
}

/// Returns the expression of a SIMILAR TO pattern.
fn similar(pattern: &str, escape: Option<char>) -> Result<Arc<Regex>> {
    let mut out = String::from("\\A(?:");
    let mut symbols = pattern.chars();
    let mut bracket = false;
    while let Some(symbol) = symbols.next() {
        match symbol {
            symbol if Some(symbol) == escape => {
                let next = symbols.next().ok_or_else(bad_escape)?;
                out.push_str(&regex::escape(next.encode_utf8(&mut [0; 4])));
            }
            ']' if bracket => {
                bracket = false;
                out.push(']');
            }
            inside if bracket => out.push(inside),
            '[' => {
                bracket = true;
                out.push('[');
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '.' | '^' | '$' | '\\' => {
                out.push('\\');
                out.push(symbol);
            }
            plain => out.push(plain),
        }
    }
    out.push_str(")\\z");
    compiled(out, false)
}

pub(super) fn matches(call: &Call<'_>, regex: Arc<Regex>) -> Result<Value> {
    Ok(Value::Bool(regex.is_match(call.text(0))))
}

fn fails(call: &Call<'_>, regex: Arc<Regex>) -> Result<Value> {
    Ok(Value::Bool(!regex.is_match(call.text(0))))
}

fn replace(call: &Call<'_>, flags: &str) -> Result<Value> {
    let regex = regex_of(call.text(1), flags)?;
    // PostgreSQL writes groups as \1 and the whole match as \&.
    let mut template = String::new();
    let mut symbols = call.text(2).chars().peekable();
    while let Some(symbol) = symbols.next() {
        match (symbol, symbols.peek().copied()) {
            ('$', _) => template.push_str("$$"),
            ('\\', Some('&')) => {
                symbols.next();
                template.push_str("${0}");
            }
            ('\\', Some(digit @ '1'..='9')) => {
                symbols.next();
                template.push_str(&format!("${{{digit}}}"));
            }
            ('\\', Some('\\')) => {
                symbols.next();
                template.push('\\');
            }
            _ => template.push(symbol),
        }
    }
    let count = if flags.contains('g') { 0 } else { 1 };
    text(regex.replacen(call.text(0), count, template.as_str()))
}
