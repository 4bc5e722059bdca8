//! Decimal numbers of a precision and a scale, as integers of 128 bits.

use super::{syntax, trim};
use crate::error::{Error, Result, State};

/// Returns a power of ten, of an exponent of 38 at most.
pub(crate) fn power_of_ten(exponent: u32) -> i128 {
    10_i128.pow(exponent.min(38))
}

/// Returns a number if it has at most `precision` digits, else 22003.
pub(crate) fn fit_decimal(number: i128, precision: u8, scale: i8) -> Result<i128> {
    if number.unsigned_abs() < power_of_ten(precision.into()).unsigned_abs() {
        return Ok(number);
    }
    Err(overflow(precision, scale))
}

fn overflow(precision: u8, scale: i8) -> Error {
    let bound = match i32::from(precision) - i32::from(scale) {
        0 => "1".to_owned(),
        whole => format!("10^{whole}"),
    };
    let detail = format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less \
         than {bound}."
    );
    Error::new(State::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(detail)
}

/// The parts of a number's text.
struct Parts<'a> {
    is_negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

/// Returns the number that a text is, rounded to `scale` half away from zero, without its point.
/// Gives nothing for NaN and the infinities. 22P02 for other texts, 22003 for too many digits.
pub(crate) fn parse_decimal(text: &str, precision: u8, scale: i8) -> Result<Option<i128>> {
    let trimmed = trim(text);
    let Some(parts) = parts(trimmed.as_bytes()) else {
        let name = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
        let is_named = ["nan", "inf", "infinity"].iter().any(|n| n.eq_ignore_ascii_case(name));
        return if is_named { Ok(None) } else { Err(syntax(text, "numeric")) };
    };
    let magnitude = scaled(&parts, scale).ok_or_else(|| overflow(precision, scale))?;
    let number = if parts.is_negative { -magnitude } else { magnitude };
    fit_decimal(number, precision, scale).map(Some)
}

fn parts(text: &[u8]) -> Option<Parts<'_>> {
    let (is_negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (whole, mut rest) = text.split_at(digits(text));
    let mut fraction: &[u8] = &[];
    if let [b'.', behind @ ..] = rest {
        (fraction, rest) = behind.split_at(digits(behind));
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut exponent = 0;
    if let [b'e' | b'E', behind @ ..] = rest {
        let (is_below, number) = match behind {
            [b'-', number @ ..] => (true, number),
            [b'+', number @ ..] => (false, number),
            _ => (false, behind),
        };
        let count = digits(number);
        if count == 0 {
            return None;
        }
        // An exponent beyond this range has the same effect as one at its end.
        let size = number[..count]
            .iter()
            .fold(0, |sum: i64, byte| (sum * 10 + i64::from(byte - b'0')).min(1 << 40));
        exponent = if is_below { -size } else { size };
        rest = &number[count..];
    }
    rest.is_empty().then_some(Parts { is_negative, whole, fraction, exponent })
}

/// Returns the digits down to `scale`, rounded by the next one; nothing if they are more than 38.
fn scaled(parts: &Parts<'_>, scale: i8) -> Option<i128> {
    let all = || parts.whole.iter().chain(parts.fraction);
    let zeros = all().take_while(|byte| **byte == b'0').count();
    let mut digits = all().skip(zeros).map(|byte| i128::from(byte - b'0'));
    let given = (parts.whole.len() + parts.fraction.len() - zeros) as i64;
    if given == 0 {
        return Some(0);
    }
    // Digits before the point, and the digits behind it that the scale keeps.
    let kept = parts.whole.len() as i64 - zeros as i64 + parts.exponent + i64::from(scale);
    if kept > 38 {
        return None;
    }
    if kept < 0 {
        return Some(0);
    }
    let mut number = 0;
    for _ in 0..kept {
        number = number * 10 + digits.next().unwrap_or(0);
    }
    Some(number + i128::from(digits.next().unwrap_or(0) >= 5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_half_away_from_zero() {
        for (text, want) in [
            ("0", 0),
            ("1.005", 101),
            ("-1.005", -101),
            ("1.0049999", 100),
            (" +.5 ", 50),
            ("5.", 500),
            ("1e3", 100_000),
            ("1.5E-2", 2),
            ("-0.004", 0),
            ("0.005", 1),
            ("0e99999999999999999999", 0),
            ("1e-99999999999999999999", 0),
            ("000000000000000000000000000000000000000000012.3", 1230),
            ("99999999.994", 9_999_999_999),
        ] {
            assert_eq!(parse_decimal(text, 10, 2).unwrap(), Some(want), "{text}");
        }
        assert_eq!(parse_decimal("1250", 5, -2).unwrap(), Some(13));
        assert_eq!(parse_decimal("NaN", 5, 2).unwrap(), None);
        let most = "9".repeat(38);
        assert_eq!(parse_decimal(&most, 38, 0).unwrap(), Some(most.parse().unwrap()));
    }

    #[test]
    fn other_texts_and_large_numbers_are_refused() {
        for text in ["", ".", "-", "1e", "1e+", "1 2", "1.2.3", "0x1", "1_0", "e5", "--1"] {
            let error = parse_decimal(text, 10, 2).unwrap_err();
            assert_eq!(error.state(), State::INVALID_TEXT_REPRESENTATION, "{text}");
        }
        for text in ["100000000", "99999999.995", "1e8", "-1e8", "1e999999999999999999999"] {
            let error = parse_decimal(text, 10, 2).unwrap_err();
            assert_eq!(error.state(), State::NUMERIC_VALUE_OUT_OF_RANGE, "{text}");
        }
    }
}
