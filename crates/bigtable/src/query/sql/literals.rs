//! Literals of texts, bytes and numbers, from the text between their quotes.
//!
//! Source: "Lexical structure and syntax" of GoogleSQL.

use super::{Result, invalid, shown};
use sqlparser::ast::Value as Literal;

/// The value that a literal has.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Constant {
    Null,
    Bool(bool),
    Int64(i64),
    Float(f64),
    String(String),
    Bytes(Vec<u8>),
}

/// Texts are Unicode, bytes are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Text,
    Bytes,
}

/// Returns the value of a literal.
pub(super) fn constant(literal: &Literal) -> Result<Constant> {
    use Literal as L;
    match literal {
        L::Null => Ok(Constant::Null),
        L::Boolean(value) => Ok(Constant::Bool(*value)),
        L::Number(digits, false) => number(digits),
        L::SingleQuotedString(raw) => text(raw, Some('\'')),
        L::DoubleQuotedString(raw) => text(raw, Some('"')),
        L::TripleSingleQuotedString(raw) | L::TripleDoubleQuotedString(raw) => text(raw, None),
        L::SingleQuotedRawStringLiteral(raw) => raw_text(raw, Some('\'')),
        L::DoubleQuotedRawStringLiteral(raw) => raw_text(raw, Some('"')),
        L::TripleSingleQuotedRawStringLiteral(raw) | L::TripleDoubleQuotedRawStringLiteral(raw) => {
            raw_text(raw, None)
        }
        L::SingleQuotedByteStringLiteral(raw) => bytes(raw, Some('\'')),
        L::DoubleQuotedByteStringLiteral(raw) => bytes(raw, Some('"')),
        L::TripleSingleQuotedByteStringLiteral(raw)
        | L::TripleDoubleQuotedByteStringLiteral(raw) => bytes(raw, None),
        other => invalid(format!("{} is not a literal", shown(&other.to_string()))),
    }
}

/// Returns the value of a number after a minus; `None` for a literal that is no number.
pub(super) fn negative(literal: &Literal) -> Option<Result<Constant>> {
    match literal {
        Literal::Number(digits, false) => Some(number(&format!("-{digits}"))),
        _ => None,
    }
}

fn number(digits: &str) -> Result<Constant> {
    if digits.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
        return match digits.parse() {
            Ok(value) => Ok(Constant::Int64(value)),
            Err(_) => invalid(format!("{} is out of range of INT64", shown(digits))),
        };
    }
    match digits.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Constant::Float(value)),
        _ => invalid(format!("{} is not a number", shown(digits))),
    }
}

fn text(raw: &str, quote: Option<char>) -> Result<Constant> {
    let bytes = unescaped(raw, quote, Holds::Text)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Constant::String(text)),
        Err(_) => invalid(format!("'{}' is not a text", shown(raw))),
    }
}

/// Returns the text of a raw literal: a backslash and what follows it are parts of the text.
fn raw_text(raw: &str, quote: Option<char>) -> Result<Constant> {
    let mut rest = raw.chars();
    while let Some(next) = rest.next() {
        if next == '\\' {
            if rest.next().is_none() {
                return invalid("a raw literal cannot end with an odd number of \\");
            }
        } else if Some(next) == quote {
            return bare(next);
        }
    }
    Ok(Constant::String(raw.to_owned()))
}

/// Refuses a quote that does not end its literal.
fn bare<T>(quote: char) -> Result<T> {
    invalid(format!("a {quote} within its own quotes needs a \\ before it"))
}

fn bytes(raw: &str, quote: Option<char>) -> Result<Constant> {
    unescaped(raw, quote, Holds::Bytes).map(Constant::Bytes)
}

/// Returns the bytes that `raw` stands for. A literal in single quotes has none of its own `quote`.
fn unescaped(raw: &str, quote: Option<char>, holds: Holds) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(next) = rest.chars().next() {
        rest = &rest[next.len_utf8()..];
        if next == '\\' {
            rest = escape(rest, holds, &mut out)?;
        } else if Some(next) == quote {
            return bare(next);
        } else {
            out.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(out)
}

/// Appends what the escape sequence at the start of `rest` stands for; returns what follows it.
fn escape<'a>(rest: &'a str, holds: Holds, out: &mut Vec<u8>) -> Result<&'a str> {
    let unknown = || {
        let start: String = rest.chars().take(4).collect();
        invalid(format!("\\{} is not an escape sequence", shown(&start)))
    };
    let Some(letter) = rest.chars().next() else {
        return invalid("a literal cannot end with a single \\");
    };
    let simple = match letter {
        'a' => Some(7),
        'b' => Some(8),
        't' => Some(b'\t'),
        'n' => Some(b'\n'),
        'v' => Some(11),
        'f' => Some(12),
        'r' => Some(b'\r'),
        '\\' | '?' | '"' | '\'' | '`' => Some(letter as u8),
        _ => None,
    };
    if let Some(byte) = simple {
        out.push(byte);
        return Ok(&rest[1..]);
    }
    let (skipped, digits, radix) = match letter {
        'x' | 'X' => (1, 2, 16),
        '0'..='3' => (0, 3, 8),
        'u' if holds == Holds::Text => (1, 4, 16),
        'U' if holds == Holds::Text => (1, 8, 16),
        _ => return unknown(),
    };
    let Some(code) = rest.get(skipped..skipped + digits) else { return unknown() };
    let is_digit = |digit: char| digit.is_digit(radix);
    let Some(code) =
        code.chars().all(is_digit).then(|| u32::from_str_radix(code, radix).ok()).flatten()
    else {
        return unknown();
    };
    let is_byte = !matches!(letter, 'u' | 'U');
    match (holds, char::from_u32(code)) {
        (Holds::Bytes, _) => out.push(code as u8),
        (Holds::Text, Some(letter)) if !is_byte || letter.is_ascii() => {
            out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
        (Holds::Text, _) => return unknown(),
    }
    Ok(&rest[skipped + digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_their_characters() {
        for (raw, want) in [
            ("abc", "abc"),
            (r"a\nb\t\\\'\x41\101", "a\nb\t\\'AA"),
            (r"\u00e9\U0001F600", "\u{e9}\u{1f600}"),
        ] {
            assert_eq!(text(raw, Some('\'')), Ok(Constant::String(want.into())), "{raw}");
        }
        assert_eq!(bytes(r"a\xff\377\0001", None), Ok(Constant::Bytes(b"a\xff\xff\x001".to_vec())));
        assert_eq!(bytes("\u{e9}", None), Ok(Constant::Bytes(vec![0xc3, 0xa9])));
    }

    #[test]
    fn raw_literals_keep_their_backslashes() {
        for raw in [r"a\n", r"it\'s", r"\\", r#"say "no""#, ""] {
            let want = Ok(Constant::String(raw.into()));
            assert_eq!(raw_text(raw, Some('\'')), want, "{raw}");
        }
        for raw in ["a''b", r"\\'", "\\", r"a\\\"] {
            assert!(raw_text(raw, Some('\'')).is_err(), "{raw}");
        }
        assert!(raw_text("a'b", None).is_ok());
    }

    #[test]
    fn malformed_literals_are_refused() {
        for raw in [
            r"\q", r"\x4", r"\xg0", r"\x+1", r"\400", r"\ud800", r"\u12", r"\xff", "\\", "a'b",
            "\\\u{e9}",
        ] {
            assert!(text(raw, Some('\'')).is_err(), "{raw}");
        }
        for raw in [r"\u0041", "\\", r"\x"] {
            assert!(bytes(raw, None).is_err(), "{raw}");
        }
        for digits in ["9223372036854775808", "1e999", "1.2.3"] {
            assert!(number(digits).is_err(), "{digits}");
        }
        assert_eq!(number("9223372036854775807"), Ok(Constant::Int64(i64::MAX)));
        assert_eq!(number("-9223372036854775808"), Ok(Constant::Int64(i64::MIN)));
        assert!(number("-9223372036854775809").is_err());
        assert_eq!(number("1.5e3"), Ok(Constant::Float(1_500.0)));
    }
}
