//! Functions of text and bytes.
//!
//! 1. Places and lengths count characters of text and bytes of bytea.

use relational::{Bytes, DataType, Error, Result, SqlState, Value};

use super::{Call, Definition, array, int4, invalid, text};
use crate::values::{cast, json, value_text};

/// Largest text that a function makes, so that no small call takes all memory.
const TEXT_BYTES_MAX: usize = 256 << 20;

pub(super) const TABLE: &[Definition] = &[
    ("op:||", "text,text -> text", |call| concat(&[call.text(0), call.text(1)])),
    ("op:||", "text,any -> text", join_any),
    ("op:||", "any,text -> text", join_any),
    ("op:||", "bytea,bytea -> bytea", |call| {
        Ok(Value::Bytea([call.bytes(0), call.bytes(1)].concat().into()))
    }),
    ("length", "text -> int4", |call| int4(call.text(0).chars().count() as i64)),
    ("length", "bytea -> int4", |call| int4(call.bytes(0).len() as i64)),
    ("char_length", "text -> int4", |call| int4(call.text(0).chars().count() as i64)),
    ("character_length", "text -> int4", |call| int4(call.text(0).chars().count() as i64)),
    ("octet_length", "text -> int4", |call| int4(call.bytes(0).len() as i64)),
    ("octet_length", "bytea -> int4", |call| int4(call.bytes(0).len() as i64)),
    ("bit_length", "text -> int4", |call| int4(call.bytes(0).len() as i64 * 8)),
    ("bit_length", "bytea -> int4", |call| int4(call.bytes(0).len() as i64 * 8)),
    ("lower", "text -> text", |call| text(call.text(0).to_lowercase())),
    ("upper", "text -> text", |call| text(call.text(0).to_uppercase())),
    ("initcap", "text -> text", initcap),
    ("substr", "text,int4 -> text", substring),
    ("substr", "text,int4,int4 -> text", substring),
    ("substring", "text,int4 -> text", substring),
    ("substring", "text,int4,int4 -> text", substring),
    ("substr", "bytea,int4 -> bytea", substring_bytes),
    ("substr", "bytea,int4,int4 -> bytea", substring_bytes),
    ("substring", "bytea,int4 -> bytea", substring_bytes),
    ("substring", "bytea,int4,int4 -> bytea", substring_bytes),
    ("left", "text,int4 -> text", left),
    ("right", "text,int4 -> text", right),
    ("lpad", "text,int4 -> text", |call| pad(call, " ", true)),
    ("lpad", "text,int4,text -> text", |call| pad(call, call.text(2), true)),
    ("rpad", "text,int4 -> text", |call| pad(call, " ", false)),
    ("rpad", "text,int4,text -> text", |call| pad(call, call.text(2), false)),
    ("btrim", "text -> text", |call| trim(call, " ", true, true)),
    ("btrim", "text,text -> text", |call| trim(call, call.text(1), true, true)),
    ("ltrim", "text -> text", |call| trim(call, " ", true, false)),
    ("ltrim", "text,text -> text", |call| trim(call, call.text(1), true, false)),
    ("rtrim", "text -> text", |call| trim(call, " ", false, true)),
    ("rtrim", "text,text -> text", |call| trim(call, call.text(1), false, true)),
    ("replace", "text,text,text -> text", replace),
    ("translate", "text,text,text -> text", translate),
    ("position", "text,text -> int4", |call| int4(position(call.text(1), call.text(0)))),
    ("strpos", "text,text -> int4", |call| int4(position(call.text(0), call.text(1)))),
    ("starts_with", "text,text -> bool", |call| {
        Ok(Value::Bool(call.text(0).starts_with(call.text(1))))
    }),
    ("op:^@", "text,text -> bool", |call| Ok(Value::Bool(call.text(0).starts_with(call.text(1))))),
    ("repeat", "text,int4 -> text", repeat),
    ("reverse", "text -> text", |call| text(call.text(0).chars().rev().collect::<String>())),
    ("ascii", "text -> int4", |call| {
        int4(call.text(0).chars().next().map_or(0, |symbol| i64::from(u32::from(symbol))))
    }),
    ("chr", "int4 -> text", chr),
    ("concat", "any... -> text null stable", |call| join(call, 0, "")),
    ("concat_ws", "text,any... -> text null stable", |call| {
        if call.value(0).is_null() { Ok(Value::Null) } else { join(call, 1, call.text(0)) }
    }),
    ("format", "text,any... -> text null stable", format),
    ("quote_ident", "text -> text", |call| text(quote_ident(call.text(0)))),
    ("quote_literal", "text -> text", |call| text(quote_literal(call.text(0)))),
    ("quote_nullable", "text -> text null", |call| match call.value(0) {
        Value::Null => text("NULL"),
        _ => text(quote_literal(call.text(0))),
    }),
    ("split_part", "text,text,int4 -> text", split_part),
    ("overlay", "text,text,int4 -> text", overlay),
    ("overlay", "text,text,int4,int4 -> text", overlay),
    ("string_to_array", "text,text -> text[] null", string_to_array),
    ("string_to_array", "text,text,text -> text[] null", string_to_array),
    ("to_hex", "int4 -> text", |call| text(format!("{:x}", call.int(0) as i32))),
    ("to_hex", "int8 -> text", |call| text(format!("{:x}", call.int(0)))),
    ("md5", "text -> text", |call| text(hex(&super::system::md5(call.bytes(0))))),
    ("md5", "bytea -> text", |call| text(hex(&super::system::md5(call.bytes(0))))),
    ("sha256", "bytea -> bytea", |call| {
        let digest = ring::digest::digest(&ring::digest::SHA256, call.bytes(0));
        Ok(Value::Bytea(Bytes::copy_from_slice(digest.as_ref())))
    }),
    ("sha512", "bytea -> bytea", |call| {
        let digest = ring::digest::digest(&ring::digest::SHA512, call.bytes(0));
        Ok(Value::Bytea(Bytes::copy_from_slice(digest.as_ref())))
    }),
    ("encode", "bytea,text -> text", encode),
    ("decode", "text,text -> bytea", decode),
    ("get_byte", "bytea,int4 -> int4", |call| {
        let at = usize::try_from(call.int(1)).ok();
        match at.and_then(|at| call.bytes(0).get(at)) {
            Some(byte) => Ok(Value::Int4(i32::from(*byte))),
            None => Err(Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "index out of valid range")),
        }
    }),
    ("text", "text -> text", |call| Ok(call.value(0).clone())),
    ("hashtext", "text -> int4", |call| {
        let digest = super::system::md5(call.bytes(0));
        Ok(Value::Int4(i32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])))
    }),
];

fn concat(parts: &[&str]) -> Result<Value> {
    let total: usize = parts.iter().map(|part| part.len()).sum();
    bounded(total)?;
    text(parts.concat())
}

fn bounded(bytes: usize) -> Result<()> {
    if bytes > TEXT_BYTES_MAX {
        let message = format!("a text of {bytes} bytes is longer than {TEXT_BYTES_MAX}");
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    Ok(())
}

fn join_any(call: &Call<'_>) -> Result<Value> {
    let left = cast(call.value(0).clone(), &DataType::Text, &call.context.settings)?;
    let right = cast(call.value(1).clone(), &DataType::Text, &call.context.settings)?;
    match (&left, &right) {
        (Value::Text(left), Value::Text(right)) => concat(&[left, right]),
        _ => Ok(Value::Null),
    }
}

fn join(call: &Call<'_>, from: usize, between: &str) -> Result<Value> {
    let mut out = String::new();
    let mut first = true;
    for value in call.arguments[from..].iter().filter(|value| !value.is_null()) {
        if !first {
            out.push_str(between);
        }
        first = false;
        out.push_str(&value_text(value, &call.context.settings));
        bounded(out.len())?;
    }
    text(out)
}

fn initcap(call: &Call<'_>) -> Result<Value> {
    let mut out = String::new();
    let mut inside = false;
    for symbol in call.text(0).chars() {
        match inside {
            true => out.extend(symbol.to_lowercase()),
            false => out.extend(symbol.to_uppercase()),
        }
        inside = symbol.is_alphanumeric();
    }
    text(out)
}

/// Returns the half-open range of places that start and length name, from 0.
fn window(call: &Call<'_>) -> Result<(usize, usize)> {
    let start = call.int(1);
    let end = match call.arguments.get(2) {
        None => i64::MAX,
        Some(_) if call.int(2) < 0 => {
            let message = "negative substring length not allowed";
            return Err(Error::new(SqlState::SUBSTRING_ERROR, message));
        }
        Some(_) => start + call.int(2),
    };
    let place = |at: i64| usize::try_from(at.saturating_sub(1).max(0)).unwrap_or(usize::MAX);
    Ok((place(start), place(end)))
}

fn slice(text: &str, from: usize, to: usize) -> &str {
    let at = |count: usize| text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    let (start, end) = (at(from), at(to));
    if start < end { &text[start..end] } else { "" }
}

fn substring(call: &Call<'_>) -> Result<Value> {
    let (from, to) = window(call)?;
    text(slice(call.text(0), from, to))
}

fn substring_bytes(call: &Call<'_>) -> Result<Value> {
    let (from, to) = window(call)?;
    let bytes = call.bytes(0);
    let (from, to) = (from.min(bytes.len()), to.min(bytes.len()));
    Ok(Value::Bytea(Bytes::copy_from_slice(bytes.get(from..to).unwrap_or_default())))
}

fn left(call: &Call<'_>) -> Result<Value> {
    let count = call.text(0).chars().count() as i64;
    let take = if call.int(1) < 0 { count + call.int(1) } else { call.int(1) };
    text(slice(call.text(0), 0, take.max(0) as usize))
}

fn right(call: &Call<'_>) -> Result<Value> {
    let count = call.text(0).chars().count() as i64;
    let skip = if call.int(1) < 0 { -call.int(1) } else { count - call.int(1) };
    text(slice(call.text(0), skip.max(0) as usize, usize::MAX))
}

fn pad(call: &Call<'_>, fill: &str, before: bool) -> Result<Value> {
    let wanted = call.int(1).max(0) as usize;
    let have = call.text(0).chars().count();
    if have >= wanted || fill.is_empty() {
        return text(slice(call.text(0), 0, wanted));
    }
    bounded(wanted.saturating_mul(4))?;
    let padding: String = fill.chars().cycle().take(wanted - have).collect();
    match before {
        true => text(padding + call.text(0)),
        false => text(call.text(0).to_owned() + &padding),
    }
}

fn trim(call: &Call<'_>, symbols: &str, start: bool, end: bool) -> Result<Value> {
    let mut rest = call.text(0);
    let any = |symbol: char| symbols.contains(symbol);
    if start {
        rest = rest.trim_start_matches(any);
    }
    if end {
        rest = rest.trim_end_matches(any);
    }
    text(rest)
}

fn replace(call: &Call<'_>) -> Result<Value> {
    if call.text(1).is_empty() {
        return Ok(call.value(0).clone());
    }
    let found = call.text(0).matches(call.text(1)).count();
    bounded(call.text(0).len() + found.saturating_mul(call.text(2).len()))?;
    text(call.text(0).replace(call.text(1), call.text(2)))
}

fn translate(call: &Call<'_>) -> Result<Value> {
    let from: Vec<char> = call.text(1).chars().collect();
    let to: Vec<char> = call.text(2).chars().collect();
    let out: String = call
        .text(0)
        .chars()
        .filter_map(|symbol| match from.iter().position(|other| *other == symbol) {
            Some(at) => to.get(at).copied(),
            None => Some(symbol),
        })
        .collect();
    text(out)
}

fn position(inside: &str, wanted: &str) -> i64 {
    inside.find(wanted).map_or(0, |at| inside[..at].chars().count() as i64 + 1)
}

fn repeat(call: &Call<'_>) -> Result<Value> {
    let count = call.int(1).max(0) as usize;
    bounded(call.text(0).len().saturating_mul(count))?;
    text(call.text(0).repeat(count))
}

fn chr(call: &Call<'_>) -> Result<Value> {
    match u32::try_from(call.int(0)).ok().filter(|code| *code != 0).and_then(char::from_u32) {
        Some(symbol) => text(symbol.to_string()),
        None => {
            let message = format!("requested character not valid for encoding: {}", call.int(0));
            Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
        }
    }
}

/// Returns the name in quotes if it could not stand without them.
pub(crate) fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    const RESERVED: &[&str] = &[
        "all",
        "and",
        "any",
        "array",
        "as",
        "asc",
        "between",
        "both",
        "case",
        "cast",
        "check",
        "column",
        "constraint",
        "create",
        "default",
        "desc",
        "distinct",
        "do",
        "else",
        "end",
        "except",
        "false",
        "fetch",
        "for",
        "foreign",
        "from",
        "full",
        "grant",
        "group",
        "having",
        "in",
        "inner",
        "intersect",
        "into",
        "is",
        "join",
        "left",
        "like",
        "limit",
        "natural",
        "not",
        "null",
        "offset",
        "on",
        "or",
        "order",
        "outer",
        "primary",
        "references",
        "right",
        "select",
        "some",
        "table",
        "then",
        "to",
        "true",
        "union",
        "unique",
        "user",
        "using",
        "when",
        "where",
        "window",
        "with",
    ];
    if plain && !RESERVED.contains(&name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the text as a literal of SQL.
pub(crate) fn quote_literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

fn format(call: &Call<'_>) -> Result<Value> {
    if call.value(0).is_null() {
        return Ok(Value::Null);
    }
    let mut out = String::new();
    let mut symbols = call.text(0).chars().peekable();
    let mut next = 1;
    while let Some(symbol) = symbols.next() {
        if symbol != '%' {
            out.push(symbol);
            continue;
        }
        let mut digits = String::new();
        while let Some(digit) = symbols.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let mut at = next;
        let mut width = 0;
        if symbols.next_if_eq(&'$').is_some() {
            at = digits.parse().unwrap_or(0);
        } else if !digits.is_empty() {
            width = digits.parse().unwrap_or(0);
        }
        let kind = symbols.next();
        if kind == Some('%') {
            out.push('%');
            continue;
        }
        let Some(value) = call.arguments.get(at).filter(|_| at > 0) else {
            return Err(invalid("too few arguments for format()"));
        };
        next = at + 1;
        let plain = value_text(value, &call.context.settings);
        let part = match (kind, value) {
            (Some('s'), _) => plain,
            (Some('I'), Value::Null) => {
                let message = "null values cannot be formatted as an SQL identifier";
                return Err(Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
            }
            (Some('I'), _) => quote_ident(&plain),
            (Some('L'), Value::Null) => "NULL".to_owned(),
            (Some('L'), _) => quote_literal(&plain),
            _ => return Err(invalid("unrecognized format() type specifier")),
        };
        bounded(out.len().saturating_add(part.len()).saturating_add(width))?;
        out.extend(std::iter::repeat_n(' ', width.saturating_sub(part.chars().count())));
        out.push_str(&part);
    }
    text(out)
}

fn split_part(call: &Call<'_>) -> Result<Value> {
    let (whole, between, at) = (call.text(0), call.text(1), call.int(2));
    if at == 0 {
        return Err(invalid("field position must not be zero"));
    }
    let parts: Vec<&str> = match between {
        "" => vec![whole],
        between => whole.split(between).collect(),
    };
    let at = if at > 0 { at - 1 } else { parts.len() as i64 + at };
    text(usize::try_from(at).ok().and_then(|at| parts.get(at)).copied().unwrap_or(""))
}

fn overlay(call: &Call<'_>) -> Result<Value> {
    let (whole, new, from) = (call.text(0), call.text(1), call.int(2));
    if from < 1 {
        let message = "negative substring length not allowed";
        return Err(Error::new(SqlState::SUBSTRING_ERROR, message));
    }
    let length = match call.arguments.len() {
        4 => call.int(3),
        _ => new.chars().count() as i64,
    };
    let start = slice(whole, 0, from as usize - 1);
    let rest = slice(whole, (from - 1 + length).max(0) as usize, usize::MAX);
    concat(&[start, new, rest])
}

fn string_to_array(call: &Call<'_>) -> Result<Value> {
    if call.value(0).is_null() {
        return Ok(Value::Null);
    }
    let whole = call.text(0);
    let parts: Vec<String> = match (whole, call.value(1)) {
        ("", _) => Vec::new(),
        (whole, Value::Null) => whole.chars().map(String::from).collect(),
        (whole, _) if call.text(1).is_empty() => vec![whole.to_owned()],
        (whole, _) => whole.split(call.text(1)).map(str::to_owned).collect(),
    };
    let null = call.arguments.get(2).filter(|value| !value.is_null()).map(|_| call.text(2));
    let value =
        |part: String| if Some(part.as_str()) == null { Value::Null } else { Value::text(part) };
    array(&DataType::Text, parts.into_iter().map(value).collect())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unknown_encoding(name: &str) -> Error {
    invalid(format!("unrecognized encoding: \"{name}\""))
}

fn encode(call: &Call<'_>) -> Result<Value> {
    match call.text(1).to_ascii_lowercase().as_str() {
        "hex" => text(hex(call.bytes(0))),
        "base64" => text(base64(call.bytes(0))),
        "escape" => {
            let settings = crate::values::Settings {
                bytea_output: crate::values::ByteaOutput::Escape,
                ..Default::default()
            };
            text(value_text(call.value(0), &settings))
        }
        other => Err(unknown_encoding(other)),
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the bytes in base 64, in lines of 76 symbols.
fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (at, group) in bytes.chunks(3).enumerate() {
        if at > 0 && at % 19 == 0 {
            out.push('\n');
        }
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for place in 0..4 {
            match place <= group.len() {
                true => out.push(char::from(BASE64[(bits >> (18 - 6 * place)) as usize & 63])),
                false => out.push('='),
            }
        }
    }
    out
}

fn decode(call: &Call<'_>) -> Result<Value> {
    let kind = call.text(1).to_ascii_lowercase();
    let prefixed = match kind.as_str() {
        "hex" => format!("\\x{}", call.text(0)),
        "escape" => call.text(0).to_owned(),
        "base64" => return decode_base64(call.text(0)),
        other => return Err(unknown_encoding(other)),
    };
    crate::values::parse_value(&prefixed, &DataType::Bytea, &call.context.settings)
}

fn decode_base64(symbols: &str) -> Result<Value> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    // Symbols of the last four that stand for bytes, less one; 0 before the first `=`.
    let mut end = 0;
    for symbol in symbols.bytes().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
        let value = if symbol == b'=' {
            end = match (end, count) {
                (0, 2 | 3) => count - 1,
                (0, _) => {
                    return Err(invalid("unexpected \"=\" while decoding base64 sequence"));
                }
                (end, _) => end,
            };
            0
        } else {
            BASE64.iter().position(|other| *other == symbol).ok_or_else(|| {
                let symbol = char::from(symbol);
                invalid(format!("invalid symbol \"{symbol}\" found while decoding base64 sequence"))
            })?
        };
        bits = bits << 6 | value as u32;
        count += 1;
        if count == 4 {
            let bytes = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
            out.extend_from_slice(&bytes[..if end == 0 { 3 } else { end }]);
            (bits, count) = (0, 0);
        }
    }
    if count != 0 {
        let hint = "Input data is missing padding, is truncated, or is corrupted in another way.";
        return Err(invalid("invalid base64 end sequence").with_hint(hint));
    }
    Ok(Value::Bytea(out.into()))
}

/// Returns a text as a JSON string.
pub(super) fn json_text(value: &str) -> String {
    json::quote(value)
}
