//! Bytes as text, without loss: in CSV and JSON lines, and on the command line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Encoding of keys, qualifiers and values in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Text as it is; `\\`, `\n`, `\r`, `\t` and `\xNN` for a backslash, for control characters and
    /// for bytes that are not UTF-8.
    Escaped,
    /// Base64 of RFC 4648, with padding.
    Base64,
}

impl Encoding {
    /// Appends `bytes` as text to `out`.
    pub fn encode(self, bytes: &[u8], out: &mut String) {
        match self {
            Self::Escaped => escape(bytes, out),
            Self::Base64 => STANDARD.encode_string(bytes, out),
        }
    }

    /// Returns the bytes that `text` stands for, or the reason why it stands for none.
    pub fn decode(self, text: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Escaped => unescape(text),
            Self::Base64 => STANDARD.decode(text).map_err(|error| format!("no Base64: {error}")),
        }
    }
}

fn escape(bytes: &[u8], out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                char if is_shown(char) => out.push(char),
                char => escape_bytes(char.encode_utf8(&mut [0; 4]).as_bytes(), out),
            }
        }
        escape_bytes(chunk.invalid(), out);
    }
}

/// Returns whether a character stands for itself: it is no control character and does not change
/// the direction or the lines of the text around it.
fn is_shown(char: char) -> bool {
    !char.is_control()
        && !matches!(char, '\u{feff}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape_bytes(bytes: &[u8], out: &mut String) {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    for byte in bytes {
        out.push_str("\\x");
        out.extend([digit(byte >> 4), digit(byte & 15)]);
    }
}

fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        bytes.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let (byte, len) = match rest {
            [b'\\', ..] => (b'\\', 1),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b't', ..] => (b'\t', 1),
            [b'x', high, low, ..] => (hex(*high, *low)?, 3),
            _ => return Err("a backslash that starts none of \\\\, \\n, \\r, \\t, \\xNN".into()),
        };
        bytes.push(byte);
        rest = &rest[len..];
    }
    bytes.extend_from_slice(rest);
    // Text may be four times as long as its bytes, which stay in memory longer.
    bytes.shrink_to_fit();
    Ok(bytes)
}

fn hex(high: u8, low: u8) -> Result<u8, String> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match (digit(high), digit(low)) {
        (Some(high), Some(low)) => Ok((high * 16 + low) as u8),
        _ => Err("\\x without two hexadecimal digits".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_text_and_come_back() {
        for (bytes, escaped, base64) in [
            (&b"plain text"[..], "plain text", "cGxhaW4gdGV4dA=="),
            (b"", "", ""),
            (b"a\\b\n\r\t\0", "a\\\\b\\n\\r\\t\\x00", "YVxiCg0JAA=="),
            ("é\u{feff}\u{202e}".as_bytes(), "é\\xef\\xbb\\xbf\\xe2\\x80\\xae", "w6nvu7/igK4="),
            (b"\xff\xc3", "\\xff\\xc3", "/8M="),
        ] {
            for (encoding, want) in [(Encoding::Escaped, escaped), (Encoding::Base64, base64)] {
                let mut text = String::new();
                encoding.encode(bytes, &mut text);
                assert_eq!(text, want);
                assert_eq!(encoding.decode(text.as_bytes()).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn text_that_stands_for_no_bytes_is_refused() {
        for text in ["\\", "\\q", "\\x", "\\x1", "\\xg0", "\\x+1"] {
            assert!(Encoding::Escaped.decode(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["a", "YQ", "YQ==\n", "Y Q=", "\\x00"] {
            assert!(Encoding::Base64.decode(text.as_bytes()).is_err(), "{text}");
        }
    }
}
