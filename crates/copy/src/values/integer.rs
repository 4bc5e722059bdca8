//! Integers.

use super::{out_of_range, syntax, trim, word};
use crate::error::Result;

const ZEROS: u64 = 0x3030_3030_3030_3030;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
/// Added to a byte of 0 to 9 it leaves the high bit clear; any other byte gets it, or has it.
const ABOVE_NINE: u64 = 0x7676_7676_7676_7676;
const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Returns how many bytes from the lowest are digits, 0 to 8.
#[inline(always)]
pub(super) fn digit_count(word: u64) -> usize {
    let digits = word ^ ZEROS;
    let others = (((digits & LOW_BITS) + ABOVE_NINE) | digits) & HIGH_BITS;
    (others.trailing_zeros() / 8) as usize
}

/// Returns the number that the first `count` bytes are, which are 1 to 8 digits.
#[inline(always)]
pub(super) fn digits_value(word: u64, count: usize) -> u64 {
    let digits = (word ^ ZEROS) << (64 - 8 * count);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    const MASK: u64 = 0x0000_00ff_0000_00ff;
    let high = (pairs & MASK).wrapping_mul(100 + (1_000_000 << 32));
    let low = ((pairs >> 16) & MASK).wrapping_mul(1 + (10_000 << 32));
    high.wrapping_add(low) >> 32
}

/// Reads an integer of at most 19 digits, with `-` or no sign. Returns it and the place behind it.
#[inline(always)]
pub(crate) fn leading_integer(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let is_negative = *bytes.get(at)? == b'-';
    let start = at + usize::from(is_negative);
    let first = word(bytes, start)?;
    let count = digit_count(first);
    if count == 0 {
        return None;
    }
    let value = digits_value(first, count);
    let (value, end) = if count < 8 { (value, start + count) } else { more(bytes, start, value)? };
    let value = i64::try_from(value).ok()?;
    Some((if is_negative { -value } else { value }, end))
}

/// Reads on behind the first eight digits. 19 of them are below 2^64.
#[inline]
fn more(bytes: &[u8], start: usize, mut value: u64) -> Option<(u64, usize)> {
    for (from, most) in [(8, 8), (16, 3)] {
        let next = word(bytes, start + from)?;
        let count = digit_count(next);
        if count > most {
            return None;
        }
        if count > 0 {
            value = value * POWERS[count] + digits_value(next, count);
        }
        if count < 8 {
            return Some((value, start + from + count));
        }
    }
    None
}

/// Returns the integer that a text is. 22P02 for other texts, 22003 beyond the type's range.
pub(crate) fn parse_integer<T: TryFrom<i64>>(text: &str, name: &str) -> Result<T> {
    let trimmed = trim(text);
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(syntax(text, name));
    }
    let number: i64 = trimmed.parse().map_err(|_| out_of_range(text, name))?;
    T::try_from(number).map_err(|_| out_of_range(text, name))
}

/// Returns the number of an object. A negative one of 32 bits stands for its unsigned bits.
pub(crate) fn parse_oid(text: &str) -> Result<u32> {
    let number: i64 = parse_integer(text, "oid")?;
    let negative = i32::try_from(number).map(|number| number as u32);
    u32::try_from(number).or(negative).map_err(|_| out_of_range(text, "oid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_integers_are_those_that_parse_reads() {
        let mut texts = vec!["0".to_owned(), "-0".to_owned(), "00012".to_owned()];
        texts.push(i64::MAX.to_string());
        texts.push((-i64::MAX).to_string());
        for digits in 1..=18 {
            texts.push("9".repeat(digits));
            texts.push(format!("-1{}", "0".repeat(digits - 1)));
            texts.push("123456789123456789"[..digits].to_owned());
        }
        for text in texts {
            for behind in ["\t", "\n", "a", "-", "/", ":", "\u{e9}"] {
                let bytes = [text.as_bytes(), behind.as_bytes(), &[0; 32]].concat();
                let want = (text.parse::<i64>().unwrap(), text.len());
                assert_eq!(leading_integer(&bytes, 0), Some(want), "{text}{behind}");
            }
        }
        for text in ["", "-", "+1", " 1", "x", "9223372036854775808", "12345678901234567890", "\t"]
        {
            let bytes = [text.as_bytes(), &[0; 32]].concat();
            assert_eq!(leading_integer(&bytes, 0), None, "{text:?}");
        }
        assert_eq!(leading_integer(b"12", 0), None, "no room to read a word");
    }
}
