//! Tokens of change streams: positions that clients keep. Layout: docs/format/change_token.md.
//!
//! 1. A token names its stream (tree and start time of the change log) and its rows, so that it is
//!    refused for any other.
//! 2. Any text decodes to a token that encodes to the same text, or is refused.

use crate::limits;
use base::checksum::crc32c;
use base::codec::{ByteReader, DecodeError, PutBytes};
use engine::{ChangePosition, RowRange, SequenceNumber, TreeId};

/// Version of the tokens that are written.
const VERSION: u8 = 1;
/// Longest text of a token, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Rows and how far their changes were told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenPart {
    pub(crate) rows: RowRange,
    pub(crate) position: ChangePosition,
}

/// A token, as the file header describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangeToken {
    /// The tree of the table's first rows.
    pub(crate) tree: TreeId,
    /// Start time of its change log.
    pub(crate) since_micros: u64,
    /// The parts of its rows, each beginning where the one before ends; at least one.
    pub(crate) parts: Vec<TokenPart>,
}

impl ChangeToken {
    /// Returns the rows of all parts.
    pub(crate) fn rows(&self) -> RowRange {
        let start = self.parts.first().map(|part| part.rows.start.clone());
        let end = self.parts.last().and_then(|part| part.rows.end.clone());
        RowRange { start: start.unwrap_or_default(), end }
    }

    /// Moves all parts up to `position`, except parts that are further; joins them when all are equal.
    pub(crate) fn advance(&mut self, position: ChangePosition) {
        for part in &mut self.parts {
            let by_time = part.position.sequence == SequenceNumber(0);
            let is_further = match by_time {
                true => part.position.micros > position.micros,
                false => part.position.sequence > position.sequence,
            };
            if !is_further {
                let micros = part.position.micros.max(position.micros);
                part.position = ChangePosition { micros, ..position };
            }
        }
        let first = self.parts.first().map(|part| part.position);
        if let Some(position) = first
            && self.parts.iter().all(|part| part.position == position)
        {
            self.parts = vec![TokenPart { rows: self.rows(), position }];
        }
    }

    /// Returns the token as text.
    pub(crate) fn encode(&self) -> String {
        let mut out = vec![VERSION];
        out.put_u32(self.tree.0);
        out.put_u64(self.since_micros);
        out.put_varint(self.parts.len() as u64);
        for TokenPart { rows, position } in &self.parts {
            out.put_string(&rows.start);
            out.push(u8::from(rows.end.is_some()));
            out.put_string(rows.end.as_deref().unwrap_or_default());
            out.put_u64(position.sequence.0);
            out.put_u64(position.micros);
        }
        let crc = crc32c(&[&out]);
        out.put_u32(crc);
        out.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hex_digit).collect()
    }

    /// Returns the token in `text`; `None` if the text is no token.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX || !text.len().is_multiple_of(2) {
            return None;
        }
        let digits = text.as_bytes().chunks_exact(2);
        let bytes = digits.map(|pair| Some(hex_value(pair[0])? << 4 | hex_value(pair[1])?));
        let bytes = bytes.collect::<Option<Vec<u8>>>()?;
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if crc32c(&[body]) != u32::from_le_bytes(*crc) {
            return None;
        }
        let token = Self::decode_body(body).ok()??;
        (token.encode() == text).then_some(token)
    }

    fn decode_body(body: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut reader = ByteReader::new(body);
        if reader.u8("version")? != VERSION {
            return Ok(None);
        }
        let tree = TreeId(reader.u32("tree")?);
        let since_micros = reader.u64("start")?;
        let mut parts: Vec<TokenPart> = Vec::new();
        for _ in 0..reader.varint("part count")? {
            let part = decode_part(&mut reader)?;
            let before = parts.last().map(|before| &before.rows.end);
            let goes_on = before.is_none_or(|end| end.as_ref() == Some(&part.rows.start));
            let is_key = |key: &Vec<u8>| key.len() <= limits::ROW_KEY_BYTES_MAX;
            let keys = is_key(&part.rows.start) && part.rows.end.as_ref().is_none_or(is_key);
            if !goes_on || !keys || part.rows.is_empty() {
                return Ok(None);
            }
            parts.push(part);
        }
        reader.finish()?;
        Ok((!parts.is_empty()).then_some(Self { tree, since_micros, parts }))
    }
}

fn decode_part(reader: &mut ByteReader<'_>) -> Result<TokenPart, DecodeError> {
    let start = reader.string("first row")?.to_vec();
    let is_bounded = reader.u8("bound")? == 1;
    let end = reader.string("end row")?.to_vec();
    let sequence = SequenceNumber(reader.u64("sequence number")?);
    let micros = reader.u64("time")?;
    let rows = RowRange { start, end: is_bounded.then_some(end) };
    Ok(TokenPart { rows, position: ChangePosition { sequence, micros } })
}

fn hex_digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap_or('0')
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// Body of the fuzz target for tokens: any text is refused without a panic, or is what its token
/// encodes to. The bytes are taken as text, and as what a token with the right checksum holds.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(token) = ChangeToken::decode(text)
    {
        assert_eq!(token.encode(), text);
    }
    let mut framed = data.to_vec();
    framed.put_u32(crc32c(&[data]));
    let text: String =
        framed.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hex_digit).collect();
    if let Some(token) = ChangeToken::decode(&text) {
        assert_eq!(token.encode(), text);
        assert!(!token.rows().is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(start: &str, end: Option<&str>, sequence: u64, micros: u64) -> TokenPart {
        let rows = RowRange { start: start.into(), end: end.map(Into::into) };
        let sequence = SequenceNumber(sequence);
        TokenPart { rows, position: ChangePosition { sequence, micros } }
    }

    fn token() -> ChangeToken {
        let parts = vec![part("a", Some("m"), 7, 1_000), part("m", None, 300, 2_000)];
        ChangeToken { tree: TreeId(16), since_micros: 900, parts }
    }

    #[test]
    fn version_1_is_frozen() {
        let golden = "01 10000000 8403000000000000 02 \
                      0161 01 016d 0700000000000000 e803000000000000 \
                      016d 00 00 2c01000000000000 d007000000000000";
        let golden = golden.replace(' ', "");
        let text = token().encode();
        assert_eq!(text[..text.len() - 8], golden);
        assert_eq!(ChangeToken::decode(&text), Some(token()));
    }

    #[test]
    fn a_text_with_any_change_is_refused() {
        let text = token().encode();
        for at in 0..text.len() {
            for digit in ["0", "7", "f", "F", "g", ""] {
                let changed = [&text[..at], digit, &text[at + 1..]].concat();
                assert!(changed == text || ChangeToken::decode(&changed).is_none(), "{changed}");
            }
        }
        for wrong in ["", "0", "00", "é", &"0".repeat(TEXT_BYTES_MAX + 2)] {
            assert_eq!(ChangeToken::decode(wrong), None);
        }
    }

    #[test]
    fn parts_that_do_not_follow_each_other_are_refused() {
        for parts in [
            vec![],
            vec![part("a", Some("a"), 1, 1)],
            vec![part("a", None, 1, 1), part("b", None, 1, 1)],
            vec![part("a", Some("b"), 1, 1), part("c", None, 1, 1)],
            vec![part(&"k".repeat(limits::ROW_KEY_BYTES_MAX + 1), None, 1, 1)],
        ] {
            let text = ChangeToken { parts, ..token() }.encode();
            assert_eq!(ChangeToken::decode(&text), None);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_round_trip() {
        let mut rng = base::env::Rng::new(1);
        let text = token().encode();
        fuzz(text.as_bytes());
        for _ in 0..2_000 {
            let mut bytes: Vec<u8> = text
                .as_bytes()
                .chunks_exact(2)
                .filter_map(|pair| Some(hex_value(pair[0])? << 4 | hex_value(pair[1])?))
                .collect();
            bytes.truncate(bytes.len() - 4);
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.below(256) as u8;
            bytes.truncate(bytes.len() - rng.below(3) as usize);
            fuzz(&bytes);
        }
    }
}
