//! Binary forms of numeric and interval whose bytes sort as their values do.
//!
//! numeric: a byte for sign and kind, the decimal exponent u32 (biased), two decimal digits a byte
//! (plus one), a zero; then the scale u16. Of negative numbers exponent, digits and zero are
//! inverted. interval: microseconds with months of 30 days i128 (biased), then months i32, days i32,
//! microseconds i64. jsonb has a key only: a byte for the kind, then text with a zero, a numeric's key, or
//! a count u32 and the parts.
//!
//! 1. Without their last [`KEY_TAIL`] bytes, equal values have equal bytes: `1.0` and `1.00`, or one
//!    month and 30 days.

use bigdecimal::num_bigint::{BigInt, Sign};
use relational::Numeric;

use crate::values::json::Json;
use crate::values::time::interval_total;

/// Bytes after the sorted key: of a numeric, and of an interval.
pub(crate) const KEY_TAIL: (usize, usize) = (2, 16);

const MINUS_INFINITY: u8 = 0x10;
const NEGATIVE: u8 = 0x40;
const ZERO: u8 = 0x80;
const POSITIVE: u8 = 0xc0;
const INFINITY: u8 = 0xe0;
const NAN: u8 = 0xf0;

/// Returns the sorted form of a number.
pub(crate) fn encode_numeric(number: &Numeric) -> Vec<u8> {
    let special = |kind: u8| vec![kind, 0, 0];
    let (digits, scale) = match number {
        Numeric::NaN => return special(NAN),
        Numeric::Infinity => return special(INFINITY),
        Numeric::NegativeInfinity => return special(MINUS_INFINITY),
        Numeric::Finite(_) => number.parts().unwrap_or_default(),
    };
    let tail = (scale.clamp(0, i64::from(u16::MAX)) as u16).to_be_bytes();
    if digits.sign() == Sign::NoSign {
        return vec![ZERO, tail[0], tail[1]];
    }
    let text = digits.magnitude().to_string();
    let exponent = text.len() as i64 - scale;
    let text = text.trim_end_matches('0').as_bytes();
    let mut out = Vec::with_capacity(text.len() / 2 + 9);
    out.push(if digits.sign() == Sign::Minus { NEGATIVE } else { POSITIVE });
    out.extend_from_slice(&((exponent + (1 << 31)) as u32).to_be_bytes());
    for pair in text.chunks(2) {
        let low = pair.get(1).map_or(0, |digit| digit - b'0');
        out.push((pair[0] - b'0') * 10 + low + 1);
    }
    out.push(0);
    if digits.sign() == Sign::Minus {
        out[1..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    out.extend_from_slice(&tail);
    out
}

/// Returns the number of a sorted form; NaN for bytes of another kind.
pub(crate) fn decode_numeric(bytes: &[u8]) -> Numeric {
    let Some((&kind, rest)) = bytes.split_first() else { return Numeric::NaN };
    match kind {
        INFINITY => return Numeric::Infinity,
        MINUS_INFINITY => return Numeric::NegativeInfinity,
        NEGATIVE | POSITIVE | ZERO => {}
        _ => return Numeric::NaN,
    }
    let split = rest.len().saturating_sub(KEY_TAIL.0);
    let (key, tail) = rest.split_at(split);
    let scale = tail.iter().fold(0_i64, |scale, byte| scale << 8 | i64::from(*byte));
    if kind == ZERO || key.len() < 5 {
        return Numeric::new(BigInt::ZERO, scale).unwrap_or(Numeric::NaN);
    }
    let flip = if kind == NEGATIVE { 0xff } else { 0 };
    let exponent = key[..4].iter().fold(0_i64, |sum, byte| sum << 8 | i64::from(byte ^ flip));
    let exponent = exponent - (1 << 31);
    let mut count = 0_i64;
    let mut small: i128 = 0;
    let mut large: Option<BigInt> = None;
    for byte in &key[4..key.len() - 1] {
        let pair = i128::from((byte ^ flip).wrapping_sub(1));
        count += 2;
        match (&mut large, count > 36) {
            (Some(large), _) => *large = &*large * 100 + pair,
            (None, true) => large = Some(BigInt::from(small) * 100 + pair),
            (None, false) => small = small * 100 + pair,
        }
    }
    let digits = large.unwrap_or_else(|| BigInt::from(small));
    // The digits stand for digits * 10^(exponent - count).
    let shift = scale - (count - exponent);
    let digits = match shift {
        0.. => digits * BigInt::from(10).pow(shift as u32),
        _ => digits / BigInt::from(10).pow((-shift) as u32),
    };
    let digits = if kind == NEGATIVE { -digits } else { digits };
    Numeric::new(digits, scale).unwrap_or(Numeric::NaN)
}

/// Returns the sorted form of an interval.
pub(crate) fn encode_interval(months: i32, days: i32, micros: i64) -> [u8; 32] {
    let mut out = [0; 32];
    let total = interval_total((months, days, micros));
    out[..16].copy_from_slice(&(total as u128 ^ (1 << 127)).to_be_bytes());
    out[16..20].copy_from_slice(&months.to_be_bytes());
    out[20..24].copy_from_slice(&days.to_be_bytes());
    out[24..].copy_from_slice(&micros.to_be_bytes());
    out
}

/// Returns months, days and microseconds of a sorted form; zero for bytes of another kind.
pub(crate) fn decode_interval(bytes: &[u8]) -> (i32, i32, i64) {
    let Ok(bytes) = <&[u8; 32]>::try_from(bytes) else { return (0, 0, 0) };
    let int =
        |at: usize| i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let micros = bytes[24..].iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    (int(16), int(20), micros as i64)
}

/// Returns the bytes by which a document compares, in PostgreSQL's order of documents.
pub(crate) fn encode_json(document: &Json) -> Vec<u8> {
    // An empty array alone stands before everything else.
    if matches!(document, Json::Array(items) if items.is_empty()) {
        return vec![0];
    }
    let mut out = Vec::new();
    push_json(document, &mut out);
    out
}

fn push_json(part: &Json, out: &mut Vec<u8>) {
    let count = |items: usize| u32::try_from(items).unwrap_or(u32::MAX).to_be_bytes();
    match part {
        Json::Null => out.push(1),
        Json::Text(text) => {
            out.push(2);
            out.extend_from_slice(text.as_bytes());
            out.push(0);
        }
        Json::Number(number) => {
            out.push(3);
            let bytes = encode_numeric(number);
            out.extend_from_slice(&bytes[..bytes.len() - KEY_TAIL.0]);
        }
        Json::Bool(value) => out.extend_from_slice(&[4, u8::from(*value)]),
        Json::Array(items) => {
            out.push(5);
            out.extend_from_slice(&count(items.len()));
            items.iter().for_each(|item| push_json(item, out));
        }
        Json::Object(members) => {
            out.push(6);
            out.extend_from_slice(&count(members.len()));
            for (name, value) in members {
                out.extend_from_slice(name.as_bytes());
                out.push(0);
                push_json(value, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_by_their_bytes_and_come_back() {
        let texts = [
            "-Infinity",
            "-1e30",
            "-123.45",
            "-123.4",
            "-10",
            "-9.99",
            "-1",
            "-0.001",
            "0",
            "0.0001",
            "0.5",
            "1.00",
            "1.01",
            "2",
            "10",
            "99.5",
            "100",
            "123456789012345678901234567890123456789012345.67",
            "Infinity",
            "NaN",
        ];
        let numbers: Vec<Numeric> = texts.iter().map(|text| text.parse().unwrap()).collect();
        for (at, number) in numbers.iter().enumerate() {
            let bytes = encode_numeric(number);
            assert_eq!(decode_numeric(&bytes).to_string(), number.to_string());
            if let Some(next) = numbers.get(at + 1) {
                assert!(bytes < encode_numeric(next), "{number} {next}");
            }
        }
        let (short, long): (Numeric, Numeric) = ("1.0".parse().unwrap(), "1.00".parse().unwrap());
        let (short, long) = (encode_numeric(&short), encode_numeric(&long));
        assert_eq!(short[..short.len() - KEY_TAIL.0], long[..long.len() - KEY_TAIL.0]);
    }

    #[test]
    fn intervals_sort_by_their_length() {
        let month = encode_interval(1, 0, 0);
        assert_eq!(month[..16], encode_interval(0, 30, 0)[..16]);
        assert!(encode_interval(0, -1, 0) < encode_interval(0, 0, -1));
        assert_eq!(decode_interval(&encode_interval(-3, 4, -5)), (-3, 4, -5));
    }
}
