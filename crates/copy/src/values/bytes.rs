//! Truth values, bytes, UUIDs, and texts of a bounded length.

use super::{syntax, trim};
use crate::error::{Error, Result, State, shorten};

/// Returns the truth value that a text is: a beginning of `true`, `yes`, `on` and so on.
pub(crate) fn parse_bool(text: &str) -> Result<bool> {
    let trimmed = trim(text).as_bytes();
    let is = |word: &[u8], least: usize| {
        let has_length = (least..=word.len()).contains(&trimmed.len());
        has_length && word[..trimmed.len()].eq_ignore_ascii_case(trimmed)
    };
    if is(b"true", 1) || is(b"yes", 1) || is(b"on", 2) || trimmed == b"1" {
        Ok(true)
    } else if is(b"false", 1) || is(b"no", 1) || is(b"off", 2) || trimmed == b"0" {
        Ok(false)
    } else {
        Err(syntax(text, "boolean"))
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Appends the bytes of `\x0a1b` or of the escape form. 22023 for wrong digits, 22P02 for wrong escapes.
pub(crate) fn parse_bytea(text: &str, out: &mut Vec<u8>) -> Result<()> {
    if let Some(digits) = text.strip_prefix("\\x") {
        return parse_hex(digits, out);
    }
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        out.push(*byte);
        rest = behind;
        if *byte != b'\\' {
            continue;
        }
        match behind {
            [b'\\', behind @ ..] => rest = behind,
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..] => {
                out.pop();
                out.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = behind;
            }
            _ => {
                let message = "invalid input syntax for type bytea";
                return Err(Error::new(State::INVALID_TEXT_REPRESENTATION, message));
            }
        }
    }
    Ok(())
}

fn parse_hex(digits: &str, out: &mut Vec<u8>) -> Result<()> {
    let wrong = |message: String| Error::new(State::INVALID_PARAMETER_VALUE, message);
    let mut rest = digits.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            continue;
        }
        let digit = |byte: u8, behind: &[u8]| {
            hex_digit(byte).ok_or_else(|| {
                let from = digits.len() - behind.len() - 1;
                let symbol = digits.get(from..).and_then(|text| text.chars().next());
                let symbol = symbol.unwrap_or(char::REPLACEMENT_CHARACTER);
                wrong(format!("invalid hexadecimal digit: \"{symbol}\""))
            })
        };
        let high = digit(*byte, behind)?;
        let Some((byte, behind)) = behind.split_first() else {
            return Err(wrong("invalid hexadecimal data: odd number of digits".to_owned()));
        };
        out.push(high << 4 | digit(*byte, behind)?);
        rest = behind;
    }
    Ok(())
}

/// Returns the bytes of a UUID: 32 digits, hyphens after any group of four, braces around.
pub(crate) fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let wrong = || syntax(text, "uuid");
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(wrong)?,
        None => text,
    };
    let mut out = [0; 16];
    let mut digits = 0;
    let mut bytes = inner.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let digit = hex_digit(byte).filter(|_| digits < 32).ok_or_else(wrong)?;
        out[digits / 2] = out[digits / 2] << 4 | digit;
        digits += 1;
        if digits % 4 == 0 && digits < 32 && bytes.peek() == Some(&b'-') {
            bytes.next();
        }
    }
    if digits != 32 {
        return Err(wrong());
    }
    Ok(out)
}

/// Returns a text of at most `max` characters; blanks beyond them are cut, other characters are 22001.
pub(crate) fn fit_varchar(text: &str, max: u32) -> Result<&str> {
    fit(text, max, "character varying")
}

/// Returns a text without trailing blanks, of at most `max` characters, else 22001.
pub(crate) fn fit_char(text: &str, max: u32) -> Result<&str> {
    fit(text.trim_end_matches(' '), max, "character")
}

#[inline]
fn fit<'a>(text: &'a str, max: u32, name: &str) -> Result<&'a str> {
    // A character has at least one byte.
    if text.len() <= max as usize {
        return Ok(text);
    }
    let Some((end, _)) = text.char_indices().nth(max as usize) else { return Ok(text) };
    if text[end..].bytes().all(|byte| byte == b' ') {
        return Ok(&text[..end]);
    }
    let message = format!("value too long for type {name}({max})");
    Err(Error::new(State::STRING_DATA_RIGHT_TRUNCATION, message))
}

/// Returns the error of bytes that are no text: the bytes of the character at `at`, or the zero byte.
pub(crate) fn not_text(bytes: &[u8], at: usize) -> Error {
    let len = match bytes.get(at) {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 1,
    };
    let shown = bytes.get(at..).unwrap_or_default().iter().take(len);
    let shown: Vec<String> = shown.map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    Error::new(State::CHARACTER_NOT_IN_REPERTOIRE, shorten(message.as_bytes()))
}
